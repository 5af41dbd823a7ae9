(* What certificates of plans and refusals claim, and what is in them. docs/guides/certificates.md
   has the same in words. Values are numbered from 0 by their place in the certificate, nodes
   by their place in the order of the plan. *)

From Coq Require Import ZArith List.
Import ListNotations.
Open Scope Z_scope.

(* What a file has. *)

Record value := Value {
  maker : Z;  (* the node; negative: there before the first node *)
  size : Z; kept : bool; uses : list Z }.
Record overwrite := Overwrite { at_node : Z; result : Z; operands : list Z }.
Record graph := Graph {
  alignment : Z; nodes : Z; values : list value; after : list (Z * Z);
  overwrites : list overwrite }.
Record slot := Slot { offset : Z; bytes : Z; hold : Z; over : Z }.
Record plan := Plan { slots : list slot; arena : Z; bound_time : Z; bound_bytes : Z }.
Record order_bound := OrderBound { bound_node : Z; node_bytes : Z }.

(* The element at an index; None outside of the list. *)
Fixpoint nth {A} (l : list A) (i : Z) : option A :=
  match l with
  | [] => None
  | x :: rest => if i =? 0 then Some x else nth rest (i - 1)
  end.

(* What it claims. *)

Definition padded (g : graph) (bytes : Z) : Z :=
  (bytes + alignment g - 1) / alignment g * alignment g.

(* Node a must run before node b. *)
Definition edge (g : graph) (a b : Z) : Prop :=
  (exists v, In v (values g) /\ maker v = a /\ 0 <= a /\ In b (uses v)) \/
  In (a, b) (after g).

(* An arena of `height` bytes has a place for all values that are live. *)
Definition fits (g : graph) (live : Z -> Prop) (place : Z -> Z) (height : Z) : Prop :=
  (alignment g | height) /\ 0 <= height /\
  (forall i v, nth (values g) i = Some v -> live i ->
     (alignment g | place i) /\ 0 <= place i /\ place i + size v <= height) /\
  (forall i j vi vj byte, nth (values g) i = Some vi -> nth (values g) j = Some vj ->
     live i -> live j -> i <> j ->
     ~ (place i <= byte < place i + size vi /\ place j <= byte < place j + size vj)).

(* A node may write its result over value a, the last use of which it is. *)
Definition may_overwrite (g : graph) (position : Z -> Z) (node a : Z) : Prop :=
  exists w v, In w (overwrites g) /\ at_node w = node /\ In a (operands w) /\
    nth (values g) a = Some v /\ kept v = false /\
    forall use, In use (uses v) -> position use <= position node.

(* A value is live while a node runs: it is made by then, and needed then or later. *)
Definition live_during (g : graph) (position : Z -> Z) (node : Z) (v : value) : Prop :=
  (maker v < 0 \/ maker v = node \/ position (maker v) < position node) /\
  (maker v = node \/ kept v = true \/
   exists use, In use (uses v) /\ position node <= position use).

(* Whatever the order, whatever the node overwrites and however values are placed: the
   arena has at least so many bytes. *)
Definition order_claim (g : graph) (b : order_bound) : Prop :=
  forall (position : Z -> Z) (overwritten : option Z) (place : Z -> Z) (height : Z),
    (forall a b, edge g a b -> position a < position b) ->
    (forall a, overwritten = Some a -> may_overwrite g position (bound_node b) a) ->
    fits g (fun i => overwritten <> Some i /\
                     exists v, nth (values g) i = Some v /\
                               live_during g position (bound_node b) v) place height ->
    node_bytes b <= height.

Definition refusal_claim (g : graph) (b : order_bound) (budget : Z) : Prop :=
  order_claim g b /\ budget < node_bytes b.

Definition first_time (v : value) : Z := Z.max (maker v) 0.

(* Value i is live at a time of the plan. *)
Definition live_at (g : graph) (p : plan) (time i : Z) : Prop :=
  exists v s, nth (values g) i = Some v /\ nth (slots p) i = Some s /\
    0 <= time <= nodes g /\ first_time v <= time /\
    (kept v = true \/ time <= first_time v \/ time <= hold s \/
     exists use, In use (uses v) /\ time <= use) /\
    (forall r vr sr, nth (values g) r = Some vr -> nth (slots p) r = Some sr ->
       over sr = i -> time < maker vr).

Record plan_claim (g : graph) (p : plan) : Prop := {
  in_order : forall a b, edge g a b -> 0 <= a < b /\ b < nodes g;
  in_arena : forall i v, nth (values g) i = Some v -> exists s,
    nth (slots p) i = Some s /\ (alignment g | offset s) /\ 0 <= offset s /\
    size v <= bytes s /\ offset s + bytes s <= arena p;
  disjoint : forall time i j si sj byte, live_at g p time i -> live_at g p time j ->
    i <> j -> nth (slots p) i = Some si -> nth (slots p) j = Some sj ->
    ~ (offset si <= byte < offset si + bytes si /\
       offset sj <= byte < offset sj + bytes sj);
  overwritten : forall r vr sr, nth (values g) r = Some vr -> nth (slots p) r = Some sr ->
    0 <= over sr -> exists w va sa,
      In w (overwrites g) /\ at_node w = maker vr /\ result w = r /\
      In (over sr) (operands w) /\ nth (values g) (over sr) = Some va /\
      nth (slots p) (over sr) = Some sa /\ offset sa = offset sr /\ bytes sa = bytes sr /\
      kept va = false /\ hold sa <= maker vr /\
      forall use, In use (uses va) -> use <= maker vr;
  packing_bound : forall place height,
    fits g (live_at g p (bound_time p)) place height -> bound_bytes p <= height }.
