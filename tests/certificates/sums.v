(* Lemmas on lists, and the one that all bounds rest on: values that are live together and
   share no byte are, with their padding, no larger in sum than the arena. *)

From Coq Require Import ZArith List Bool Lia.
From Certificates Require Import claims checker.
Import ListNotations.
Open Scope Z_scope.

Lemma nth_nonnegative {A} : forall (l : list A) i x, nth l i = Some x -> 0 <= i.
Proof.
  induction l as [|y l IH]; simpl; intros i x H; [discriminate|].
  destruct (Z.eqb_spec i 0); [lia|]. apply IH in H. lia.
Qed.

Lemma nth_in {A} : forall (l : list A) i x, nth l i = Some x -> In x l.
Proof.
  induction l as [|y l IH]; simpl; intros i x H; [discriminate|].
  destruct (i =? 0); [left; congruence | right; eauto].
Qed.

Lemma index_in {A} : forall (l : list A) k i x,
  In (i, x) (index_from k l) <-> nth l (i - k) = Some x.
Proof.
  induction l as [|y l IH]; simpl; intros k i x; [split; [easy|discriminate]|].
  rewrite IH. destruct (Z.eqb_spec (i - k) 0).
  - split; [intros [H|H]|intros H]; try congruence.
    + apply nth_nonnegative in H. lia.
    + left. f_equal; [lia|congruence].
  - replace (i - k - 1) with (i - (k + 1)) by lia.
    split; [intros [H|H]|]; auto. inversion H. lia.
Qed.

Lemma index_in_0 {A} : forall (l : list A) i x,
  In (i, x) (index_from 0 l) <-> nth l i = Some x.
Proof. intros. rewrite index_in. now replace (i - 0) with i by lia. Qed.

Lemma index_distinct {A} : forall (l : list A) k, NoDup (map fst (index_from k l)).
Proof.
  induction l as [|y l IH]; simpl; intros k; constructor; auto.
  rewrite in_map_iff. intros [[i x] [E H]]. simpl in E. subst.
  apply index_in, nth_nonnegative in H. lia.
Qed.

Lemma nth_combine {A B} : forall (l : list A) (m : list B) i x y,
  nth (combine l m) i = Some (x, y) <-> nth l i = Some x /\ nth m i = Some y.
Proof.
  induction l as [|a l IH]; intros [|b m] i x y; simpl;
    try (split; [discriminate | intros [? ?]; discriminate]).
  destruct (i =? 0); [|apply IH].
  split; [intros H; inversion H; auto | intros [H K]; congruence].
Qed.

Lemma nth_some {A B} : forall (l : list A) (m : list B) i x,
  length l = length m -> nth l i = Some x -> exists y, nth m i = Some y.
Proof.
  induction l as [|a l IH]; intros [|b m] i x E H; simpl in *; try discriminate.
  destruct (i =? 0); eauto.
Qed.

Lemma distinct_map_filter {A B} (f : A -> B) (p : A -> bool) : forall l,
  NoDup (map f l) -> NoDup (map f (filter p l)).
Proof.
  induction l as [|x l IH]; simpl; intros H; auto. inversion_clear H.
  destruct (p x); simpl; auto. constructor; auto.
  rewrite in_map_iff in *. intros [y [E K]]. apply H0. exists y.
  apply filter_In in K. tauto.
Qed.

Lemma largest_in : forall l x, In x l -> x <= largest l.
Proof.
  induction l as [|y l IH]; simpl; intros x H; [easy|].
  destruct H as [->|H]; [lia|]. apply IH in H. lia.
Qed.

Lemma largest_nonnegative : forall l, 0 <= largest l.
Proof. induction l; simpl; lia. Qed.

(* Bytes that fit. *)

Definition interval (begin length : Z) : list Z :=
  map (fun k => begin + Z.of_nat k) (seq 0 (Z.to_nat length)).

Lemma interval_in : forall begin length x,
  In x (interval begin length) -> begin <= x < begin + length.
Proof.
  unfold interval. intros b n x H. apply in_map_iff in H.
  destruct H as [k [E H]]. apply in_seq in H. lia.
Qed.

Lemma interval_distinct : forall begin length, NoDup (interval begin length).
Proof.
  intros. unfold interval. apply FinFun.Injective_map_NoDup; [|apply seq_NoDup].
  intros x y. lia.
Qed.

Lemma interval_length : forall begin n, length (interval begin n) = Z.to_nat n.
Proof. intros. unfold interval. now rewrite map_length, seq_length. Qed.

(* Intervals within [0, height) that share no byte are not longer in sum than that. *)
Lemma sum_fits : forall (l : list Z) (place length_of : Z -> Z) height, 0 <= height ->
  NoDup l ->
  (forall i, In i l -> 0 <= place i /\ 0 <= length_of i /\ place i + length_of i <= height) ->
  (forall i j x, In i l -> In j l -> i <> j ->
     ~ (place i <= x < place i + length_of i /\ place j <= x < place j + length_of j)) ->
  sum (map length_of l) <= height.
Proof.
  intros l place len height H0 D R S.
  set (all := flat_map (fun i => interval (place i) (len i)) l).
  assert (NoDup all /\ length all = Z.to_nat (sum (map len l)) /\ 0 <= sum (map len l)) as
      [N [L P]].
  { subst all. clear H0. unfold sum. induction l as [|i l IH]; simpl.
    - split; [constructor|]. split; [reflexivity|lia].
    - inversion_clear D.
      destruct IH as [N [L P]]; auto.
      { intros; apply R; simpl; auto. }
      { intros a b x ? ?; apply S; simpl; auto. }
      destruct (R i) as [? [? ?]]; [simpl; auto|].
      split; [|rewrite app_length, interval_length, L; split; lia].
      assert (A : forall x, In x (interval (place i) (len i)) ->
                  ~ In x (flat_map (fun i => interval (place i) (len i)) l)).
      { intros x Hx K. apply in_flat_map in K. destruct K as [j [Hj K]].
        apply interval_in in Hx. apply interval_in in K.
        apply (S i j x); simpl; auto. intros ->. contradiction. }
      revert A. generalize (interval_distinct (place i) (len i)).
      generalize (interval (place i) (len i)) as m.
      induction m as [|y m IH]; simpl; intros M A; auto. inversion_clear M.
      constructor; auto. rewrite in_app_iff. intros [K|K]; auto.
      apply (A y); auto. }
  assert (incl all (interval 0 height)).
  { intros x Hx. apply in_flat_map in Hx. destruct Hx as [i [Hi Hx]].
    apply interval_in in Hx. destruct (R i Hi) as [? [? ?]].
    unfold interval. apply in_map_iff. exists (Z.to_nat x).
    split; [lia|]. apply in_seq. lia. }
  apply NoDup_incl_length in H; auto. rewrite L, interval_length in H. lia.
Qed.

Lemma padded_bounds : forall g s, 1 <= alignment g -> 0 <= s ->
  s <= padded g s /\ padded g s < s + alignment g /\ (alignment g | padded g s).
Proof.
  unfold padded. intros g s A S. set (a := alignment g) in *.
  pose proof (Z.div_mod (s + a - 1) a ltac:(lia)).
  pose proof (Z.mod_pos_bound (s + a - 1) a ltac:(lia)).
  repeat split; try nia. apply Z.divide_factor_r.
Qed.

(* What ends at or before an aligned place does so with its padding. *)
Lemma padded_fits : forall g place s limit, 1 <= alignment g -> 0 <= s ->
  (alignment g | place) -> (alignment g | limit) -> place + s <= limit ->
  place + padded g s <= limit.
Proof.
  intros g p s l A S [x ->] [y ->] H.
  destruct (padded_bounds g s A S) as [_ [U [z E]]]. rewrite E in *.
  destruct (Z_lt_le_dec y (x + z)) as [C|C].
  - pose proof (Z.mul_le_mono_nonneg_r (y + 1) (x + z) (alignment g)
                  ltac:(lia) ltac:(lia)). lia.
  - pose proof (Z.mul_le_mono_nonneg_r (x + z) y (alignment g) ltac:(lia) C). lia.
Qed.

(* The sizes of values that are live, with their padding, sum to no more than the arena. *)
Lemma live_sum_fits : forall g live place height (l : list (Z * value)),
  1 <= alignment g -> (forall v, In v (values g) -> 0 <= size v) ->
  fits g live place height -> NoDup (map fst l) ->
  (forall i v, In (i, v) l -> nth (values g) i = Some v /\ live i) ->
  sum (map (fun iv => padded g (size (snd iv))) l) <= height.
Proof.
  intros g live place height l A S [DH [PH [F D]]] N L.
  set (len := fun i => match nth (values g) i with
                       | Some v => padded g (size v) | None => 0 end).
  replace (map (fun iv => padded g (size (snd iv))) l) with (map len (map fst l)).
  2: { rewrite map_map. apply map_ext_in. intros [i v] H. unfold len. simpl.
       destruct (L i v H) as [-> _]. reflexivity. }
  assert (V : forall i, In i (map fst l) -> exists v,
            nth (values g) i = Some v /\ live i /\ 0 <= size v).
  { intros i H. apply in_map_iff in H. destruct H as [[j v] [E H]]. simpl in E. subst j.
    destruct (L i v H) as [K ?]. exists v. eauto using nth_in. }
  apply sum_fits with (place := place); auto.
  - intros i H. destruct (V i H) as [v [K [Li Sv]]]. unfold len. rewrite K.
    destruct (F i v K Li) as [? [? ?]]. destruct (padded_bounds g (size v) A Sv).
    repeat split; try lia. apply padded_fits; auto.
  - intros i j x Hi Hj NE. destruct (V i Hi) as [v [K [Li Sv]]].
    destruct (V j Hj) as [w [M [Lj Sw]]]. unfold len. rewrite K, M.
    destruct (F i v K Li) as [Di [? ?]]. destruct (F j w M Lj) as [Dj [? ?]].
    pose proof (D i j v w (place i) K M Li Lj NE) as P.
    pose proof (D i j v w (place j) K M Li Lj NE) as Q.
    assert (Zero : padded g 0 = 0).
    { unfold padded. rewrite Z.div_small; lia. }
    destruct (Z.eq_dec (size v) 0) as [E|]; [rewrite E, Zero; lia|].
    destruct (Z.eq_dec (size w) 0) as [E|]; [rewrite E, Zero; lia|].
    assert (place i + size v <= place j \/ place j + size w <= place i) as [O|O] by lia.
    + apply padded_fits with (g := g) in O; auto. lia.
    + apply padded_fits with (g := g) in O; auto. lia.
Qed.
