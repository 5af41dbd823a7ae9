(* The checker of certificates, as functions that are extracted to OCaml. It is
   tools/check_certificate.py again, but for the comparison of slots, of which it takes all
   pairs. order_bound.v and plan.v prove that the claims of what it accepts are true. *)

From Coq Require Import ZArith List Bool FMapPositive Mergesort Orders Lia.
From Certificates Require Import claims.
Import ListNotations.
Open Scope Z_scope.

Definition sum (l : list Z) : Z := fold_right Z.add 0 l.
Definition largest (l : list Z) : Z := fold_right Z.max 0 l.

Fixpoint index_from {A} (k : Z) (l : list A) : list (Z * A) :=
  match l with [] => [] | x :: rest => (k, x) :: index_from (k + 1) rest end.

Definition check_value (g : graph) (v : value) : bool :=
  (-1 <=? maker v) && (maker v <? nodes g) && (0 <=? size v) &&
  forallb (fun use => (maker v <? use) && (use <? nodes g)) (uses v).

Definition check_overwrite (g : graph) (w : overwrite) : bool :=
  match nth (values g) (result w) with
  | None => false
  | Some r => (0 <=? at_node w) && (maker r =? at_node w) && forallb (fun a =>
      match nth (values g) a with
      | None => false
      | Some v => (size v =? size r) && existsb (Z.eqb (at_node w)) (uses v)
      end) (operands w)
  end.

Fixpoint distinct (l : list Z) : bool :=
  match l with [] => true | x :: rest => negb (existsb (Z.eqb x) rest) && distinct rest end.

Definition check_graph (g : graph) : bool :=
  (1 <=? alignment g) && (0 <=? nodes g) && forallb (check_value g) (values g) &&
  forallb (fun e => (0 <=? fst e) && (fst e <? snd e) && (snd e <? nodes g)) (after g) &&
  forallb (check_overwrite g) (overwrites g) && distinct (map at_node (overwrites g)).

(* Sets of nodes. *)
Definition set := PositiveMap.t Z.
Definition key (x : Z) : positive := Z.to_pos (x + 1).
Definition member (x : Z) (s : set) : bool :=
  match PositiveMap.find (key x) s with Some y => y =? x | None => false end.
Definition insert (x : Z) (s : set) : set := PositiveMap.add (key x) x s.

Module Rising <: TotalLeBool.
  Definition t := (Z * Z)%type.
  Definition leb (x y : t) := fst x <=? fst y.
  Lemma leb_total : forall x y, leb x y = true \/ leb y x = true.
  Proof. intros x y; unfold leb; rewrite !Z.leb_le; lia. Qed.
End Rising.
Module Falling <: TotalLeBool.
  Definition t := (Z * Z)%type.
  Definition leb (x y : t) := fst y <=? fst x.
  Lemma leb_total : forall x y, leb x y = true \/ leb y x = true.
  Proof. intros x y; unfold leb; rewrite !Z.leb_le; lia. Qed.
End Falling.
Module SortRising := Sort Rising.
Module SortFalling := Sort Falling.

(* What the edges, in this order, lead to from a node, with the node. *)
Definition closure (node : Z) (edges : list (Z * Z)) : set :=
  fold_left (fun s e => if member (fst e) s then insert (snd e) s else s) edges
            (insert node (PositiveMap.empty Z)).

Definition edges (g : graph) : list (Z * Z) :=
  flat_map (fun v => if 0 <=? maker v then map (pair (maker v)) (uses v) else [])
           (values g) ++ after g.
Definition later (g : graph) (node : Z) : set := closure node (SortRising.sort (edges g)).
Definition earlier (g : graph) (node : Z) : set :=
  closure node (SortFalling.sort (map (fun e => (snd e, fst e)) (edges g))).

Definition outlives (node : Z) (later : set) (v : value) : bool :=
  kept v || existsb (fun use => negb (use =? node) && member use later) (uses v).

Definition counts (node : Z) (earlier later : set) (v : value) : bool :=
  ((maker v <? 0) || (maker v =? node) || member (maker v) earlier) &&
  ((maker v =? node) || existsb (Z.eqb node) (uses v) || outlives node later v).

Definition candidates (g : graph) (node : Z) (later : set) : list Z :=
  flat_map (fun w => if at_node w =? node then
    flat_map (fun a => match nth (values g) a with
                       | Some v => if outlives node later v then [] else [padded g (size v)]
                       | None => [] end) (operands w) else []) (overwrites g).

Definition size_at_node (g : graph) (node : Z) : Z :=
  let before := earlier g node in
  let after := later g node in
  sum (map (fun iv => padded g (size (snd iv)))
           (filter (fun iv => counts node before after (snd iv))
                   (index_from 0 (values g)))) - largest (candidates g node after).

Definition check_order_bound (g : graph) (b : order_bound) : bool :=
  (0 <=? bound_node b) && (bound_node b <? nodes g) &&
  (size_at_node g (bound_node b) =? node_bytes b).

Definition check_refusal (g : graph) (b : order_bound) (budget : Z) : bool :=
  check_graph g && check_order_bound g b && (0 <=? budget) && (budget <? node_bytes b).

Definition last_time (g : graph) (v : value) (s : slot) : Z :=
  if kept v then nodes g
  else fold_right Z.max (Z.max (first_time v) (hold s)) (uses v).

(* A value with its index, its slot, and the time at which it is live no more. *)
Record item := Item { index : Z; what : value; place : slot; end_time : Z }.

Definition item_of (g : graph) (overs : list Z) (x : Z * (value * slot)) : item :=
  let '(i, (v, s)) := x in
  let last := last_time g v s in
  Item i v s (if existsb (Z.eqb i) overs then last else last + 1).

Definition items (g : graph) (p : plan) : list item :=
  let overs := filter (Z.leb 0) (map over (slots p)) in
  map (item_of g overs) (index_from 0 (combine (values g) (slots p))).

Definition check_over (g : graph) (p : plan) (x : item) : bool :=
  let s := place x in
  (over s =? -1) ||
  (0 <=? over s) &&
  match nth (values g) (over s), nth (slots p) (over s) with
  | Some va, Some sa =>
      (offset sa =? offset s) && (bytes sa =? bytes s) && negb (kept va) &&
      (last_time g va sa =? maker (what x)) &&
      existsb (fun w => (at_node w =? maker (what x)) && (result w =? index x) &&
                        existsb (Z.eqb (over s)) (operands w)) (overwrites g)
  | _, _ => false
  end.

Definition check_item (g : graph) (p : plan) (x : item) : bool :=
  let s := place x in
  (0 <=? offset s) && (offset s mod alignment g =? 0) && (size (what x) <=? bytes s) &&
  (offset s + bytes s <=? arena p) && (-1 <=? hold s) && (hold s <=? nodes g) &&
  check_over g p x.

Definition apart (x y : item) : bool :=
  (bytes (place x) =? 0) || (bytes (place y) =? 0) ||
  (offset (place x) + bytes (place x) <=? offset (place y)) ||
  (offset (place y) + bytes (place y) <=? offset (place x)) ||
  (end_time x <=? first_time (what y)) || (end_time y <=? first_time (what x)).

Fixpoint all_apart (l : list item) : bool :=
  match l with [] => true | x :: rest => forallb (apart x) rest && all_apart rest end.

Definition is_live (time : Z) (x : item) : bool :=
  (first_time (what x) <=? time) && (time <? end_time x).

Definition check_plan (g : graph) (p : plan) (b : option order_bound) : bool :=
  let all := items g p in
  check_graph g && (Z.of_nat (length (slots p)) =? Z.of_nat (length (values g))) &&
  (0 <=? arena p) && (arena p mod alignment g =? 0) &&
  forallb (check_item g p) all && all_apart all &&
  (0 <=? bound_time p) && (bound_time p <=? nodes g) &&
  (sum (map (fun x => padded g (size (what x))) (filter (is_live (bound_time p)) all)) =?
   bound_bytes p) &&
  match b with None => true | Some b => check_order_bound g b end.
