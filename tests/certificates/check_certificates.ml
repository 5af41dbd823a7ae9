(* Reads certificates (docs/guides/certificates.md) and prints "accepted: FILE" or "rejected: FILE:
   why", a line each. All that decides is extracted from checker.v, as checker.ml; this
   reads the lines, and is not proven.

     check_certificates FILE... *)

open Checker

exception Rejected of string

let reject text = raise (Rejected text)

(* Numbers as the checker has them: of any size, in binary. *)
let rec positive n =
  if n = 1 then XH
  else if n land 1 = 1 then XI (positive (n lsr 1))
  else XO (positive (n lsr 1))

let number n = if n = 0 then Z0 else if n > 0 then Zpos (positive n) else Zneg (positive (-n))

let parse_number word =
  let negative = String.length word > 1 && word.[0] = '-' in
  let digits = if negative then String.sub word 1 (String.length word - 1) else word in
  let is_digit c = '0' <= c && c <= '9' in
  if digits = "" || String.length digits > 19 || not (String.for_all is_digit digits) then
    reject (Printf.sprintf "%S is no number" word);
  match int_of_string_opt digits with  (* of 63 bits: at most 2^62 - 1 *)
  | Some n -> number (if negative then -n else n)
  | None -> reject (word ^ " is too large")

let words_of line =
  let line = List.hd (String.split_on_char '#' line) in
  let blank = function '\t' | '\r' -> ' ' | c -> c in
  List.filter (( <> ) "") (String.split_on_char ' ' (String.map blank line))

let read path =
  let file = open_in_bin path in
  let text = really_input_string file (in_channel_length file) in
  close_in file;
  List.filter (( <> ) []) (List.map words_of (String.split_on_char '\n' text))

(* The fields of all leading lines of a kind, and the other lines. *)
let rec take kind lines taken =
  match lines with
  | (word :: fields) :: rest when word = kind ->
      take kind rest (List.map parse_number fields :: taken)
  | _ -> (List.rev taken, lines)

let many kind lines = take kind !lines [] |> fun (taken, rest) -> lines := rest; taken

let one kind lines =
  match !lines with
  | (word :: fields) :: rest when word = kind ->
      lines := rest;
      List.map parse_number fields
  | _ -> reject ("no line \"" ^ kind ^ "\" in its place")

let wrong kind = reject ("a line \"" ^ kind ^ "\" with other fields than expected")
let single kind lines = match one kind lines with [ n ] -> n | _ -> wrong kind
let pair kind = function [ a; b ] -> (a, b) | _ -> wrong kind

let value_of = function
  | maker :: size :: kept :: uses when kept = Z0 || kept = Zpos XH ->
      { maker; size; kept = kept <> Z0; uses }
  | _ -> wrong "value"

let overwrite_of = function
  | at_node :: result :: operands when operands <> [] -> { at_node; result; operands }
  | _ -> wrong "overwrite"

let slot_of = function
  | [ offset; bytes; hold; over ] -> { offset; bytes; hold; over }
  | _ -> wrong "slot"

let order_bound lines =
  let bound_node, node_bytes = pair "order-bound" (one "order-bound" lines) in
  { bound_node; node_bytes }

let read_end lines = if !lines <> [ [ "end" ] ] then reject "no end in its place"

let check path =
  let claim, rest =
    match read path with
    | [ "stowage-certificate"; "1" ] :: [ "claim"; claim ] :: rest -> (claim, rest)
    | _ -> reject "this is no certificate"
  in
  let lines = ref rest in
  let alignment = single "alignment" lines in
  let nodes = single "nodes" lines in
  let values = List.map value_of (many "value" lines) in
  let after = List.map (pair "after") (many "after" lines) in
  let overwrites = List.map overwrite_of (many "overwrite" lines) in
  let graph = { alignment; nodes; values; after; overwrites } in
  match claim with
  | "refusal" ->
      let bound = order_bound lines in
      let budget = single "budget" lines in
      read_end lines;
      check_refusal graph bound budget
  | "plan" ->
      let slots = List.map slot_of (many "slot" lines) in
      let arena = single "arena" lines in
      let bound_time, bound_bytes = pair "lower-bound" (one "lower-bound" lines) in
      let bound = if !lines = [ [ "end" ] ] then None else Some (order_bound lines) in
      read_end lines;
      check_plan graph { slots; arena; bound_time; bound_bytes } bound
  | _ -> reject "this is no known claim"

let () =
  for i = 1 to Array.length Sys.argv - 1 do
    let path = Sys.argv.(i) in
    match check path with
    | true -> Printf.printf "accepted: %s\n" path
    | false -> Printf.printf "rejected: %s: a claim does not hold\n" path
    | exception Rejected why -> Printf.printf "rejected: %s: %s\n" path why
    | exception Sys_error why -> Printf.printf "rejected: %s\n" why
  done
