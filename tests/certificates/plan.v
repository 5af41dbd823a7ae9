(* What the checker accepts of a plan is true; the axioms of both proofs, of which there are
   none; and the program. *)

From Coq Require Import ZArith List Bool Lia ExtrOcamlBasic.
From Certificates Require Import claims checker sums order_bound.
Import ListNotations.
Open Scope Z_scope.

Lemma last_time_needed : forall g v s t, t <= nodes g ->
  (kept v = true \/ t <= first_time v \/ t <= hold s \/
   exists use, In use (uses v) /\ t <= use) <-> t <= last_time g v s \/ kept v = true.
Proof.
  intros g v s t T. unfold last_time. destruct (kept v); [tauto|].
  generalize (uses v). intros l.
  assert (E : t <= fold_right Z.max (Z.max (first_time v) (hold s)) l <->
              t <= first_time v \/ t <= hold s \/ exists u, In u l /\ t <= u).
  { induction l as [|u l IH]; simpl.
    - rewrite Z.max_le_iff. split; [tauto|]. intros [H|[H|[u [[] _]]]]; auto.
    - rewrite Z.max_le_iff, IH. split.
      + intros [H|[H|[H|[w [I H]]]]]; eauto 6.
      + intros [H|[H|[w [[->|I] H]]]]; eauto 6. }
  rewrite E. split; [intros [H|H]; [discriminate|tauto]|intros [H|H]; [tauto|discriminate]].
Qed.

Section Plans.
  Variables (g : graph) (p : plan) (b : option order_bound).
  Hypothesis accepted : check_plan g p b = true.

  Let all := items g p.

  Lemma parts : check_graph g = true /\ length (slots p) = length (values g) /\
    (alignment g | arena p) /\ (forall x, In x all -> check_item g p x = true) /\
    all_apart all = true /\ 0 <= bound_time p <= nodes g /\
    sum (map (fun x => padded g (size (what x))) (filter (is_live (bound_time p)) all)) =
      bound_bytes p /\
    match b with None => True | Some b => check_order_bound g b = true end.
  Proof.
    unfold check_plan in accepted. rewrite !andb_true_iff in accepted.
    destruct accepted as [[[[[[[[[G L] A0] A] I] P] T0] T1] B] O].
    destruct (check_graph_sizes g G) as [AL _].
    apply Z.eqb_eq in L, A, B. apply Z.leb_le in T0, T1.
    rewrite forallb_forall in I.
    repeat split; auto; try lia.
    - apply Z.mod_divide; lia.
    - destruct b; auto.
  Qed.

  Lemma item_in : forall i v s, nth (values g) i = Some v -> nth (slots p) i = Some s ->
    In (item_of g (filter (Z.leb 0) (map over (slots p))) (i, (v, s))) all.
  Proof.
    intros i v s V S. unfold all, items. apply in_map, index_in_0, nth_combine. auto.
  Qed.

  Lemma in_items : forall x, In x all ->
    nth (values g) (index x) = Some (what x) /\ nth (slots p) (index x) = Some (place x).
  Proof.
    intros x H. apply in_map_iff in H. destruct H as [[i [v s]] [E H]].
    apply index_in_0, nth_combine in H. subst x. exact H.
  Qed.

  Lemma item_end : forall x, In x all ->
    (end_time x = last_time g (what x) (place x) /\
     exists r vr sr, nth (values g) r = Some vr /\ nth (slots p) r = Some sr /\
       over sr = index x) \/
    (end_time x = last_time g (what x) (place x) + 1 /\
     forall r sr, nth (slots p) r = Some sr -> over sr <> index x).
  Proof.
    intros x H. apply in_map_iff in H. destruct H as [[i [v s]] [E H]].
    apply index_in_0, nth_combine in H. destruct H as [V S]. subst x. simpl.
    destruct (existsb _ _) eqn:X; [left|right]; split; auto.
    - apply existsb_exists in X. destruct X as [j [I E]]. apply Z.eqb_eq in E. subst j.
      apply filter_In in I. destruct I as [I _]. apply in_map_iff in I.
      destruct I as [sr [O I]].
      assert (exists r, nth (slots p) r = Some sr) as [r R].
      { clear -I. induction (slots p) as [|y l IH]; [easy|]. destruct I as [->|I].
        - exists 0. reflexivity.
        - destruct (IH I) as [r R]. exists (r + 1). simpl.
          pose proof (nth_nonnegative _ _ _ R). destruct (Z.eqb_spec (r + 1) 0); [lia|].
          now replace (r + 1 - 1) with r by lia. }
      destruct parts as [_ [L _]]. destruct (nth_some _ (values g) _ _ L R) as [vr VR].
      exists r, vr, sr. auto.
    - intros r sr R E. assert (existsb (Z.eqb i) (filter (Z.leb 0) (map over (slots p)))
                               = true); [|congruence].
      apply existsb_exists. exists i. split; [|apply Z.eqb_refl]. apply filter_In. split.
      + rewrite <- E. apply in_map. eapply nth_in; eauto.
      + apply Z.leb_le. eapply nth_nonnegative; eauto.
  Qed.

  (* A result that is written over value a is made at the last time of a. *)
  Lemma over_checked : forall r vr sr, nth (values g) r = Some vr ->
    nth (slots p) r = Some sr -> 0 <= over sr -> exists w va sa,
      In w (overwrites g) /\ at_node w = maker vr /\ result w = r /\
      In (over sr) (operands w) /\ nth (values g) (over sr) = Some va /\
      nth (slots p) (over sr) = Some sa /\ offset sa = offset sr /\ bytes sa = bytes sr /\
      kept va = false /\ last_time g va sa = maker vr.
  Proof.
    intros r vr sr V S O. destruct parts as [_ [_ [_ [I _]]]].
    specialize (I _ (item_in _ _ _ V S)). unfold check_item in I.
    rewrite !andb_true_iff in I. destruct I as [_ I]. unfold check_over in I. simpl in I.
    apply orb_true_iff in I. destruct I as [I|I]; [apply Z.eqb_eq in I; lia|].
    apply andb_true_iff in I. destruct I as [_ I].
    destruct (nth (values g) (over sr)) as [va|] eqn:VA; [|easy].
    destruct (nth (slots p) (over sr)) as [sa|] eqn:SA; [|easy].
    rewrite !andb_true_iff in I. destruct I as [[[[E1 E2] K] L] W].
    apply existsb_exists in W. destruct W as [w [W M]]. rewrite !andb_true_iff in M.
    destruct M as [[M1 M2] M3]. apply existsb_exists in M3. destruct M3 as [a [M3 M4]].
    apply Z.eqb_eq in E1, E2, L, M1, M2, M4. subst a. apply negb_true_iff in K.
    exists w, va, sa. auto 12.
  Qed.

  Lemma live_item : forall time i, live_at g p time i -> exists x,
    In x all /\ index x = i /\ is_live time x = true.
  Proof.
    intros t i [v [s [V [S [T [F [N G]]]]]]].
    eexists. split; [apply (item_in _ _ _ V S)|]. split; [reflexivity|].
    unfold is_live. rewrite andb_true_iff, Z.leb_le, Z.ltb_lt. split; [exact F|].
    pose proof (proj1 (last_time_needed g v s t ltac:(lia)) N) as N'.
    assert (t <= last_time g v s).
    { destruct N' as [|K]; auto. unfold last_time. rewrite K. lia. }
    destruct (item_end _ (item_in _ _ _ V S)) as [[E [r [vr [sr [VR [SR O]]]]]]|[E _]];
      rewrite E; simpl in *; [|lia].
    assert (0 <= over sr) by (rewrite O; eapply nth_nonnegative; eauto).
    destruct (over_checked _ _ _ VR SR H0) as
      [w [va [sa [_ [_ [_ [_ [VA [SA [_ [_ [_ L]]]]]]]]]]]].
    rewrite O in VA, SA. rewrite V in VA. rewrite S in SA.
    inversion VA; inversion SA; subst va sa. specialize (G _ _ _ VR SR O). lia.
  Qed.

  Lemma item_live : forall time x, In x all -> 0 <= time <= nodes g ->
    is_live time x = true -> live_at g p time (index x).
  Proof.
    intros t x I T H. destruct (in_items _ I) as [V S]. unfold is_live in H.
    apply andb_true_iff in H. destruct H as [F E]. apply Z.leb_le in F. apply Z.ltb_lt in E.
    exists (what x), (place x). repeat split; auto; try lia.
    - apply (proj2 (last_time_needed g _ _ t ltac:(lia))). left.
      destruct (item_end _ I) as [[E' _]|[E' _]]; lia.
    - intros r vr sr VR SR O. destruct (item_end _ I) as [[E' _]|[_ N]].
      2: { exfalso. eapply N; eauto. }
      assert (0 <= over sr) by (rewrite O; eapply nth_nonnegative; eauto).
      destruct (over_checked _ _ _ VR SR H) as
        [w [va [sa [_ [_ [_ [_ [VA [SA [_ [_ [_ L]]]]]]]]]]]].
      rewrite O in VA, SA. rewrite V in VA. rewrite S in SA.
      inversion VA; inversion SA; subst va sa. lia.
  Qed.

  Lemma items_apart : forall x y, In x all -> In y all -> index x <> index y ->
    apart x y = true \/ apart y x = true.
  Proof.
    destruct parts as [_ [_ [_ [_ [P _]]]]]. revert P. generalize all. clear.
    induction all as [|z l IH]; simpl; intros P x y X Y N; [easy|].
    apply andb_true_iff in P. destruct P as [Z P]. rewrite forallb_forall in Z.
    destruct X as [->|X], Y as [->|Y]; auto; congruence.
  Qed.

  Theorem accepted_plan : plan_claim g p /\
    match b with None => True | Some b => order_claim g b end.
  Proof.
    destruct parts as [G [L [A [I [P [T [B O]]]]]]].
    destruct (check_graph_sizes g G) as [AL SZ].
    split; [|destruct b; auto; now apply order_bound_sound].
    constructor.
    - intros x y E. unfold check_graph in G. rewrite !andb_true_iff in G.
      destruct G as [[[[[_ _] V] F] _] _]. rewrite forallb_forall in V, F.
      destruct E as [[v [Iv [M [Mx U]]]]|E].
      + specialize (V v Iv). unfold check_value in V. rewrite !andb_true_iff in V.
        destruct V as [_ V]. rewrite forallb_forall in V. specialize (V y U).
        rewrite andb_true_iff, !Z.ltb_lt in V. lia.
      + specialize (F _ E). simpl in F. rewrite !andb_true_iff, !Z.ltb_lt, Z.leb_le in F. lia.
    - intros i v V. destruct (nth_some _ (slots p) _ _ (eq_sym L) V) as [s S].
      exists s. specialize (I _ (item_in _ _ _ V S)). unfold check_item in I. simpl in I.
      rewrite !andb_true_iff, !Z.leb_le, Z.eqb_eq in I.
      repeat split; try tauto. apply Z.mod_divide; [lia|tauto].
    - intros t i j si sj byte Li Lj N Si Sj [Hi Hj].
      destruct (live_item _ _ Li) as [x [X [<- Lx]]].
      destruct (live_item _ _ Lj) as [y [Y [<- Ly]]].
      destruct (in_items _ X) as [_ PX], (in_items _ Y) as [_ PY].
      rewrite Si in PX. rewrite Sj in PY. inversion PX; inversion PY; subst si sj.
      unfold is_live in Lx, Ly. rewrite andb_true_iff, Z.leb_le, Z.ltb_lt in Lx, Ly.
      destruct (items_apart _ _ X Y N) as [Q|Q]; unfold apart in Q;
        rewrite !orb_true_iff, !Z.eqb_eq, !Z.leb_le in Q; lia.
    - intros r vr sr V S Ov. destruct (over_checked _ _ _ V S Ov) as
        [w [va [sa [H1 [H2 [H3 [H4 [VA [SA [H5 [H6 [K LT]]]]]]]]]]]].
      exists w, va, sa. repeat split; auto; unfold last_time in LT; rewrite K in LT.
      + rewrite <- LT. clear. induction (uses va); simpl; lia.
      + intros u U. rewrite <- LT. clear -U. induction (uses va); simpl in *; [easy|].
        destruct U as [->|U]; [lia|]. specialize (IHl U). lia.
    - intros pl h F. rewrite <- B.
      replace (map _ (filter _ _)) with (map (fun iv => padded g (size (snd iv)))
        (map (fun x => (index x, what x)) (filter (is_live (bound_time p)) all)))
        by (rewrite map_map; reflexivity).
      eapply live_sum_fits; eauto.
      + rewrite map_map. simpl. apply distinct_map_filter. unfold all, items.
        rewrite map_map. replace (map _ (index_from 0 _)) with
          (map fst (index_from 0 (combine (values g) (slots p)))).
        * apply index_distinct.
        * apply map_ext. intros [i [v s]]. reflexivity.
      + intros i v H. apply in_map_iff in H. destruct H as [x [E H]].
        inversion E; subst. apply filter_In in H. destruct H as [H K].
        split; [apply in_items; auto|apply item_live; auto].
  Qed.
End Plans.

Print Assumptions accepted_plan.
Print Assumptions accepted_refusal.

Extraction Language OCaml.
Extraction "checker.ml" check_plan check_refusal.
