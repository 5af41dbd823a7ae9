(* The order bound holds for every order, and what the checker accepts of a refusal is true. *)

From Coq Require Import ZArith List Bool Lia Permutation FMapPositive.
From Certificates Require Import claims checker sums.
Import ListNotations.
Open Scope Z_scope.

Lemma closure_sound : forall node es (lead : Z -> Z -> Prop),
  (forall a b c, lead a b -> lead b c -> lead a c) ->
  (forall a b, In (a, b) es -> lead a b) ->
  forall x, member x (closure node es) = true -> x = node \/ lead node x.
Proof.
  intros node es lead T E.
  assert (I : forall es s, (forall a b, In (a, b) es -> lead a b) ->
    (forall k y, PositiveMap.find k s = Some y -> y = node \/ lead node y) ->
    forall k y, PositiveMap.find k (fold_left (fun s e =>
      if member (fst e) s then insert (snd e) s else s) es s) = Some y ->
      y = node \/ lead node y).
  { clear E. induction es0 as [|[a b] es0 IH]; simpl; intros s E I k y H; [eauto|].
    apply IH in H; auto. clear k y H. intros k y H.
    destruct (member a s) eqn:M; [|eauto]. unfold insert in H.
    destruct (Pos.eq_dec k (key b)) as [->|N].
    - rewrite PositiveMap.gss in H. inversion H; subst y. right.
      unfold member in M. destruct (PositiveMap.find (key a) s) as [z|] eqn:F; [|easy].
      apply Z.eqb_eq in M. subst z. destruct (I _ _ F) as [->|L]; eauto.
    - rewrite PositiveMap.gso in H; eauto. }
  intros x M. unfold member in M.
  destruct (PositiveMap.find (key x) (closure node es)) as [y|] eqn:F; [|easy].
  apply Z.eqb_eq in M. subst y. eapply (I es _ E); [|exact F].
  intros k y H. unfold insert in H. destruct (Pos.eq_dec k (key node)) as [->|N].
  - rewrite PositiveMap.gss in H. inversion H; auto.
  - rewrite PositiveMap.gso, PositiveMap.gempty in H; easy.
Qed.

Lemma edges_real : forall g a b, In (a, b) (edges g) -> edge g a b.
Proof.
  unfold edges, edge. intros g a b H. apply in_app_iff in H. destruct H as [H|H]; auto.
  left. apply in_flat_map in H. destruct H as [v [V H]].
  destruct (0 <=? maker v) eqn:P; [|easy]. apply Z.leb_le in P.
  apply in_map_iff in H. destruct H as [u [E U]]. inversion E; subst. eauto.
Qed.

Lemma edges_all : forall g a b, edge g a b -> In (a, b) (edges g) \/ a < 0.
Proof.
  unfold edges, edge. intros g a b [[v [V [M [P U]]]]|H]; left; apply in_app_iff; auto.
  left. apply in_flat_map. exists v. split; auto. subst a.
  apply Z.leb_le in P. rewrite P. apply in_map. auto.
Qed.

Section Order.
  Variables (g : graph) (position : Z -> Z) (node : Z).
  Hypothesis legal : forall a b, edge g a b -> position a < position b.

  Lemma later_sound : forall x, member x (later g node) = true -> x <> node ->
    position node < position x.
  Proof.
    intros x M N. apply (closure_sound node _ (fun a b => position a < position b)) in M.
    - destruct M; [contradiction|auto].
    - intros; lia.
    - intros a b H. apply legal, edges_real.
      eapply Permutation_in; [apply Permutation_sym, SortRising.Permuted_sort|exact H].
  Qed.

  Lemma earlier_sound : forall x, member x (earlier g node) = true -> x <> node ->
    position x < position node.
  Proof.
    intros x M N. apply (closure_sound node _ (fun a b => position b < position a)) in M.
    - destruct M; [contradiction|auto].
    - intros; lia.
    - intros a b H. apply legal, edges_real.
      eapply Permutation_in in H; [|apply Permutation_sym, SortFalling.Permuted_sort].
      apply in_map_iff in H. destruct H as [[c d] [E H]]. inversion E; subst. auto.
  Qed.

  Lemma outlives_sound : forall v, outlives node (later g node) v = true ->
    kept v = true \/ exists use, In use (uses v) /\ position node < position use.
  Proof.
    unfold outlives. intros v H. apply orb_true_iff in H. destruct H as [H|H]; auto.
    right. apply existsb_exists in H. destruct H as [use [U H]].
    apply andb_true_iff in H. destruct H as [N M]. exists use. split; auto.
    apply later_sound; auto. intros ->. now rewrite Z.eqb_refl in N.
  Qed.

  Lemma counts_sound : forall v,
    counts node (earlier g node) (later g node) v = true ->
    live_during g position node v.
  Proof.
    unfold counts, live_during. intros v H. apply andb_true_iff in H. destruct H as [A B].
    rewrite !orb_true_iff in A, B. split.
    - destruct A as [[A|A]|A]; [apply Z.ltb_lt in A; auto|apply Z.eqb_eq in A; auto|].
      destruct (Z.eq_dec (maker v) node); auto. right; right. now apply earlier_sound.
    - destruct B as [[B|B]|B]; [apply Z.eqb_eq in B; auto| |].
      + apply existsb_exists in B. destruct B as [u [U E]]. apply Z.eqb_eq in E. subst u.
        right; right. exists node. split; auto. lia.
      + apply outlives_sound in B. destruct B as [B|[u [U L]]]; auto.
        right; right. exists u. split; auto. lia.
  Qed.
End Order.

Lemma sum_without : forall (size_of : value -> Z) a c (l : list (Z * value)),
  NoDup (map fst l) -> (forall v, In (a, v) l -> size_of v <= c) -> 0 <= c ->
  sum (map (fun iv => size_of (snd iv)) l) - c <=
  sum (map (fun iv => size_of (snd iv)) (filter (fun iv => negb (fst iv =? a)) l)).
Proof.
  intros size_of a c l N H C.
  assert (P : forall l : list (Z * value), ~ In a (map fst l) ->
            filter (fun iv => negb (fst iv =? a)) l = l).
  { induction l0 as [|[i v] l0 IH]; simpl; intros K; auto.
    destruct (Z.eqb_spec i a); simpl; [exfalso; auto|]. rewrite IH; auto. }
  unfold sum. induction l as [|[i v] l IH]; simpl in *; [lia|].
  inversion_clear N. destruct (Z.eqb_spec i a) as [->|NE]; simpl.
  - rewrite P; auto. specialize (H v (or_introl eq_refl)). lia.
  - assert (forall v0, In (a, v0) l -> size_of v0 <= c) by auto.
    specialize (IH H1 H2). lia.
Qed.

Lemma order_bound_sound : forall g b,
  1 <= alignment g -> (forall v, In v (values g) -> 0 <= size v) ->
  check_order_bound g b = true -> order_claim g b.
Proof.
  unfold check_order_bound, order_claim, size_at_node.
  intros g b A S H position overwritten place height legal O F.
  rewrite !andb_true_iff in H. destruct H as [_ H]. apply Z.eqb_eq in H. rewrite <- H.
  set (node := bound_node b) in *.
  set (l := filter _ _). set (c := largest _).
  assert (L : forall i v, In (i, v) l ->
            nth (values g) i = Some v /\ live_during g position node v).
  { intros i v K. apply filter_In in K. destruct K as [K C]. apply index_in_0 in K.
    split; auto. now apply counts_sound. }
  assert (N : NoDup (map fst l)) by apply distinct_map_filter, index_distinct.
  assert (C0 : 0 <= c) by apply largest_nonnegative.
  destruct overwritten as [a|].
  - destruct (O a eq_refl) as [w [v [W [AT [P [V [K U]]]]]]].
    assert (C : forall v', In (a, v') l -> padded g (size v') <= c).
    { intros v' I. apply L in I. destruct I as [I _]. rewrite V in I. inversion I; subst v'.
      apply largest_in. unfold candidates. apply in_flat_map. exists w. split; auto.
      rewrite AT, Z.eqb_refl. apply in_flat_map. exists a. split; auto. rewrite V.
      destruct (outlives node (later g node) v) eqn:X; [|simpl; auto].
      apply (outlives_sound g position node legal) in X.
      destruct X as [X|[u [I' X]]]; [congruence|]. specialize (U u I'). lia. }
    pose proof (sum_without (fun v => padded g (size v)) a c l N C C0) as Q.
    eapply Z.le_trans; [exact Q|]. eapply live_sum_fits; eauto.
    + now apply distinct_map_filter.
    + intros i v' I. apply filter_In in I. destruct I as [I E]. apply L in I.
      destruct I as [I D]. split; auto. split; eauto.
      intros X. inversion X; subst. simpl in E. now rewrite Z.eqb_refl in E.
  - assert (Q : sum (map (fun iv => padded g (size (snd iv))) l) <= height).
    { eapply live_sum_fits; eauto. intros i v I. apply L in I. destruct I as [I D].
      split; auto. split; [discriminate|eauto]. }
    lia.
Qed.

Lemma check_graph_sizes : forall g, check_graph g = true ->
  1 <= alignment g /\ (forall v, In v (values g) -> 0 <= size v).
Proof.
  unfold check_graph. intros g H. rewrite !andb_true_iff in H.
  destruct H as [[[[[A _] V] _] _] _]. split; [now apply Z.leb_le|].
  intros v I. rewrite forallb_forall in V. specialize (V v I).
  unfold check_value in V. rewrite !andb_true_iff in V.
  destruct V as [[[_ _] V] _]. now apply Z.leb_le.
Qed.

Theorem accepted_refusal : forall g b budget,
  check_refusal g b budget = true -> refusal_claim g b budget.
Proof.
  unfold check_refusal, refusal_claim. intros g b budget H. rewrite !andb_true_iff in H.
  destruct H as [[[G O] _] B]. destruct (check_graph_sizes g G).
  split; [now apply order_bound_sound|now apply Z.ltb_lt].
Qed.
