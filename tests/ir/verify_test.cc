#include "ir/verify.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/text.h"
#include "tests/support/graph_peer.h"

namespace stowage {
namespace {

// Values by position: 0 x, 1 w, 2 lr, 3 h, 4 t, 5 a, 6 b, 7 w.new.
// Nodes: 0 add, 1 permute, 2 split, 3 sgd_update.
constexpr std::string_view kGood = R"(stowage-ir 1
graph "g" {
  x: f32(2, 3) = input
  w: f32(2, 3) = param
  lr: f32() = input
  h: f32(2, 3) = add(x, w)
  t: f32(3, 2) = permute(h) {order=[1, 0]}
  a: f32(2, 1), b: f32(2, 2) = split(h) {axis=1, sizes=[1, 2]}
  w.new: f32(2, 3) = sgd_update(w, h, lr) {decay=0.0}
  output "result" = t
}
)";

Graph Parse(std::string_view text) {
  Result<Graph> graph = ParseGraph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

std::string InGraph(std::string_view lines) {
  return "stowage-ir 1\ngraph \"g\" {\n" + std::string(lines) + "\n}\n";
}

// What Verify says of the good graph after `damage`.
using Damage = void (*)(Graph&);
std::string ErrorAfter(Damage damage) {
  Graph graph = Parse(kGood);
  damage(graph);
  const Status status = Verify(graph);
  return status.ok() ? "" : status.error().message;
}

using Peer = GraphTestPeer;

TEST_CASE("A good graph has nothing against it") {
  CHECK(ErrorAfter([](Graph&) {}).empty());
}

TEST_CASE("Names that are missing, shared or not in the index are found") {
  CHECK(ErrorAfter([](Graph& g) { Peer::Values(g)[3].name.clear(); }) ==
        "[ir] value 3 has no name");
  CHECK(ErrorAfter(
            [](Graph& g) { Peer::Values(g)[3].name = std::string("x"); }) ==
        "[ir] the name \"x\" means value 3 and value 0; names must be unique");
  CHECK(ErrorAfter([](Graph& g) { Peer::ByName(g).erase("h"); }) ==
        "[ir] value 3 \"h\" is not found by its name");
}

TEST_CASE("Leaves must look like leaves") {
  CHECK(ErrorAfter(
            [](Graph& g) { Peer::Values(g)[0].role = Role::kActivation; }) ==
        "[ir] leaf \"x\" has role activation; a leaf is a param, input, saved, "
        "state or cache");
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Values(g)[0].type.shape = Shape{2, 0};
        }) ==
        "[ir] leaf \"x\" has shape (2, 0); every dimension must be at least 1 "
        "and the bytes must fit 64 bits");
  CHECK(ErrorAfter([](Graph& g) {
          // 2^61 elements fit; their 2^63 bytes do not.
          Peer::Values(g)[0].type.shape = Shape{int64_t{1} << 61};
        }) ==
        "[ir] leaf \"x\" has shape (2305843009213693952); every dimension must "
        "be at least 1 and the bytes must fit 64 bits");
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Values(g)[0].type.shape = Shape{1, 1, 1, 1, 1, 1, 1, 1, 1};
        }) == "[ir] leaf \"x\" has rank 9; at most 8 is supported");
  CHECK(ErrorAfter(
            [](Graph& g) { Peer::Values(g)[1].init = Init::Normal(-0.5); }) ==
        "[ir] the init of \"w\" has scale -0.5; expected a finite number of at "
        "least 0");
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Values(g)[1].init =
              Init::Uniform(std::numeric_limits<double>::infinity());
        }) ==
        "[ir] the init of \"w\" has scale inf; expected a finite number of at "
        "least 0");
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Values(g)[1].type.dtype = DType::kI32;
          Peer::Values(g)[1].init = Init::Normal(1e10);
        }) ==
        "[ir] the init of \"w\" is random, its type i32(2, 3); only floats "
        "start random, others at zeros, ones or a constant");
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Values(g)[1].type.shape = Shape{6};
          Peer::Values(g)[1].init = Init::Orthogonal();
        }) ==
        "[ir] the init of \"w\" is orthogonal, its type f32(6); expected at "
        "least two dimensions");
}

TEST_CASE("Roles of results are checked") {
  CHECK(ErrorAfter([](Graph& g) { Peer::Values(g)[3].role = Role::kParam; }) ==
        "[ir] \"h\" has role param and is a result of node 0 (add \"h\"); only "
        "leaves and their updates have that role");
  CHECK(
      ErrorAfter([](Graph& g) { Peer::Values(g)[3].role = Role::kConstant; }) ==
      "[ir] \"h\" has role constant and is a result of node 0 (add \"h\"); "
      "only results of constant have it");
  CHECK(
      ErrorAfter([](Graph& g) { Peer::Values(g)[7].role = Role::kGradient; }) ==
      "[ir] \"w.new\" has role gradient; it is the new content of \"w\", whose "
      "role is param");
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Values(g)[3].role = Role::kGradient;
        }).empty());
}

TEST_CASE("Operands must exist, and earlier") {
  CHECK(ErrorAfter([](Graph& g) { Peer::Nodes(g)[1].inputs[0] = 8; }) ==
        "[ir] node 1 (permute \"t\") reads value 8; the graph has 8 values");
  CHECK(ErrorAfter([](Graph& g) { Peer::Nodes(g)[1].inputs[0] = -1; }) ==
        "[ir] node 1 (permute \"t\") reads value -1; the graph has 8 values");
  CHECK(ErrorAfter([](Graph& g) { Peer::Nodes(g)[0].inputs[0] = 3; }) ==
        "[ir] node 0 (add \"h\") reads \"h\" before node 0 makes it");
  CHECK(ErrorAfter([](Graph& g) { Peer::Nodes(g)[0].inputs[1] = 7; }) ==
        "[ir] node 0 (add \"h\") reads \"w.new\" before node 3 makes it");
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Nodes(g)[1].inputs = {3, 3};
        }) == "[ir] node 1 (permute \"t\") has 2 operands; permute takes 1");
}

TEST_CASE("Producers and results must agree") {
  CHECK(ErrorAfter([](Graph& g) { Peer::Values(g)[3].producer = 4; }) ==
        "[ir] \"h\" is said to be a result of node 4; the graph has 4 nodes");
  CHECK(ErrorAfter([](Graph& g) { Peer::Values(g)[3].producer = -2; }) ==
        "[ir] \"h\" is said to be a result of node -2; the graph has 4 nodes");
  CHECK(ErrorAfter([](Graph& g) { Peer::Values(g)[4].producer = 2; }) ==
        "[ir] \"t\" is said to be result 0 of node 2; it is result 0 of node 1 "
        "(permute \"t\")");
  CHECK(ErrorAfter([](Graph& g) { Peer::Values(g)[6].result = 0; }) ==
        "[ir] \"b\" is said to be result 0 of node 2; it is result 1 of node 2 "
        "(split \"a\")");
  CHECK(ErrorAfter([](Graph& g) { Peer::Nodes(g)[2].results.clear(); }) ==
        "[ir] node 2 (split) has no results");
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Nodes(g)[2].results = {6, 5};
        }) ==
        "[ir] node 2 (split \"b\") has value 6 as result 0; values stand in "
        "the order of their producers, here comes 5");
  CHECK(ErrorAfter([](Graph& g) { Peer::Nodes(g)[1].results = {0}; }) ==
        "[ir] node 1 (permute \"x\") has value 0 as result 0; values stand in "
        "the order of their producers, here comes 4");
  // A value too many, at the end.
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Values(g).push_back(g.value(7));
          Peer::Values(g).back().name = "extra";
          Peer::ByName(g)["extra"] = 8;
        }) ==
        "[ir] \"extra\" is said to be result 0 of node 3 (sgd_update "
        "\"w.new\"), which does not have it");
}

TEST_CASE("Types must follow from the op's rule") {
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Values(g)[4].type.shape = Shape{2, 3};
        }) ==
        "[ir] \"t\" is said to be f32(2, 3); node 1 (permute \"t\") makes it "
        "f32(3, 2)");
  CHECK(ErrorAfter(
            [](Graph& g) { Peer::Values(g)[3].type.dtype = DType::kF64; }) ==
        "[ir] \"h\" is said to be f64(2, 3); node 0 (add \"h\") makes it "
        "f32(2, 3)");
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Nodes(g)[2].attrs.Set("sizes", std::vector<int64_t>{1, 1, 1});
        }) == "[ir] node 2 (split \"a\") has 2 results; its operands give 3");
  // What the rule itself refuses is passed on.
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Nodes(g)[1].attrs.Set("order", 0.5);
        }).starts_with("[ir] node 1 (permute \"t\"): [permute] "));
}

TEST_CASE("Outputs must exist and be found by their names") {
  CHECK(ErrorAfter([](Graph& g) { Peer::Outputs(g)[0].value = 8; }) ==
        "[ir] output \"result\" is value 8; the graph has 8 values");
  CHECK(ErrorAfter([](Graph& g) { Peer::Outputs(g)[0].name.clear(); }) ==
        "[ir] output 0 has no name");
  CHECK(ErrorAfter(
            [](Graph& g) { Peer::Outputs(g)[0].name = std::string("x"); }) ==
        "[ir] the name of output \"x\" of value 4 means value 0; an output's "
        "name is its value's or its own");
  CHECK(ErrorAfter([](Graph& g) { Peer::Outputs(g)[0].name = "new"; }) ==
        "[ir] the name of output \"new\" of value 4 means nothing; an output's "
        "name is its value's or its own");
  CHECK(ErrorAfter([](Graph& g) {
          Peer::Outputs(g).push_back(g.outputs()[0]);
        }) == "[ir] two outputs are called \"result\"");
}

TEST_CASE("Strides that a kernel cannot take are found") {
  // The text is legalized as it is parsed: undo it, reading the view itself.
  Graph graph =
      Parse(InGraph("x: f32(2, 3) = input\n"
                    "t: f32(3, 2) = permute(x) {order=[1, 0]}\n"
                    "y: f32(3, 2) = softmax(t)"));
  REQUIRE(graph.num_nodes() == 3);
  REQUIRE(Verify(graph).ok());
  GraphTestPeer::Nodes(graph)[2].inputs[0] = graph.Find("t").value();
  const Status status = Verify(graph);
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message ==
        "[ir] graph \"g\" has an operand whose strides its reader cannot take; "
        "Legalize inserts the copy it needs");
}

TEST_CASE("Updates write whole params and states, and end the old content") {
  struct Row {
    const char* lines;  // after those of kLeaves
    const char* error;
  };
  constexpr std::string_view kLeaves =
      "w: f32(2, 2) = param\n"
      "s: f32(2, 2) = state\n"
      "x: f32(2, 2) = input\n"
      "lr: f32() = input\n";
  const Row rows[] = {
      // Fine: views and results of the new content, the old read before.
      {"y: f32(2, 2) = neg(w)\n"
       "w2: f32(2, 2) = sgd_update(w, y, lr) {decay=0.0}\n"
       "w3: f32(2, 2) = permute(w2) {order=[1, 0]}\n"
       "z: f32(2, 2) = neg(w3)\n"
       "output \"w2\" = w2",
       ""},
      {"w2: f32(2, 2), s2: f32(2, 2) = momentum_update(w, s, x, lr) "
       "{momentum=0.9, decay=0.0}",
       ""},
      {"y: f32(2, 2) = sgd_update(x, w, lr) {decay=0.0}",
       "[ir] node 0 (sgd_update \"y\") writes in place of \"x\", which is a "
       "leaf of role input; only a whole param, state, cache, fill, own block "
       "or reloaded "
       "value "
       "can be updated, or its new content"},
      {"h: f32(2, 2) = neg(w)\n"
       "y: f32(2, 2) = sgd_update(h, x, lr) {decay=0.0}",
       "[ir] node 1 (sgd_update \"y\") writes in place of \"h\", which is a "
       "result of node 0; only a whole param, state, cache, fill, own block or "
       "reloaded "
       "value "
       "can be updated, or its new content"},
      {"v: f32(1, 2) = slice(w) {axis=0, start=0, end=1, step=1}\n"
       "u: f32(1, 2) = neg(v)\n"
       "y: f32(1, 2) = sgd_update(v, u, lr) {decay=0.0}",
       "[ir] node 2 (sgd_update \"y\") writes in place of \"v\", which is a "
       "view of \"w\"; only a whole param, state, cache, fill, own block or "
       "reloaded value "
       "can "
       "be updated, or its new content"},
      // One content after the other, each read before the next.
      {"s2: f32(2, 2) = assign(s, x)\n"
       "y: f32(2, 2) = neg(s2)\n"
       "s3: f32(2, 2) = lerp_update(s2, w, y)\n"
       "z: f32(2, 2) = neg(s3)",
       ""},
      {"f: f32(2, 2) = fill() {dtype=f32, shape=[2, 2], value=0.0}\n"
       "r: f32(1, 2) = slice(x) {axis=0, start=1, end=2, step=1}\n"
       "g: f32(2, 2) = slice_update(f, r) {axis=0, start=0}",
       ""},
      {"s2: f32(2, 2) = assign(s, x)\n"
       "s3: f32(2, 2) = assign(s2, w)\n"
       "y: f32(2, 2) = neg(s2)",
       "[ir] node 2 (neg \"y\") reads \"s2\", an old content of \"s\", which "
       "node 1 (assign \"s3\") overwrites; read the update's result, or read "
       "earlier"},
      {"s2: f32(2, 2) = assign(s, x)\n"
       "s3: f32(2, 2) = assign(s, w)",
       "[ir] node 1 (assign \"s3\") reads \"s\", an old content of \"s\", "
       "which node 0 (assign \"s2\") overwrites; read the update's result, or "
       "read earlier"},
      {"t: f32(2, 2) = permute(s) {order=[1, 0]}\n"
       "s2: f32(2, 2) = assign(s, t)",
       "[ir] node 1 (assign \"s2\") reads \"t\", an old content of \"s\", "
       "which node 1 (assign \"s2\") overwrites; read the update's result, or "
       "read earlier"},
      {"w2: f32(2, 2), w3: f32(2, 2) = momentum_update(w, w, x, lr) "
       "{momentum=0.9, decay=0.0}",
       "[ir] node 0 (momentum_update \"w2\") updates \"w\" twice"},
      {"w2: f32(2, 2) = sgd_update(w, w, lr) {decay=0.0}",
       "[ir] node 0 (sgd_update \"w2\") reads \"w\", an old content of \"w\", "
       "which node 0 (sgd_update \"w2\") overwrites; read the update's result, "
       "or read earlier"},
      {"t: f32(2, 2) = permute(w) {order=[1, 0]}\n"
       "w2: f32(2, 2) = sgd_update(w, x, lr) {decay=0.0}\n"
       "y: f32(2, 2) = neg(t)",
       "[ir] node 2 (neg \"y\") reads \"t\", an old content of \"w\", which "
       "node 1 (sgd_update \"w2\") overwrites; read the update's result, or "
       "read earlier"},
      {"w2: f32(2, 2) = sgd_update(w, x, lr) {decay=0.0}\n"
       "t: f32(2, 2) = permute(w) {order=[1, 0]}",
       "[ir] node 1 (permute \"t\") reads \"w\", an old content of \"w\", "
       "which node 0 (sgd_update \"w2\") overwrites; read the update's result, "
       "or read earlier"},
      {"t: f32(2, 2) = permute(w) {order=[1, 0]}\n"
       "w2: f32(2, 2) = sgd_update(w, x, lr) {decay=0.0}\n"
       "output \"o\" = t",
       "[ir] output \"o\" reads \"t\", an old content of \"w\", which node 1 "
       "(sgd_update \"w2\") overwrites; read the update's result, or read "
       "earlier"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.lines);
    const Result<Graph> graph =
        ParseGraph(InGraph(std::string(kLeaves) + row.lines));
    CHECK((graph.ok() ? "" : graph.error().message) == row.error);
  }
}

TEST_CASE(
    "What lies in the host's memory is reloaded; of leaves, params and states "
    "may") {
  struct Row {
    const char* lines;  // after those of kLeaves
    const char* error;
  };
  constexpr std::string_view kLeaves =
      "w: f32(2, 2) = param\n"
      "s: f32(2, 2) = host_state\n"
      "x: f32(2, 2) = input\n"
      "lr: f32() = input\n";
  const Row rows[] = {
      // Fine: what was reloaded is updated, and written back.
      {"t: f32(2, 2) = reload(s)\n"
       "w2: f32(2, 2), t2: f32(2, 2) = momentum_update(w, t, x, lr) "
       "{momentum=0.9, decay=0.0}\n"
       "s2: f32(2, 2) = offload_update(s, t2)",
       ""},
      {"y: f32(2, 2) = neg(s)",
       "[neg] reads \"s\" in the host's memory; expected one in the arena: "
       "reload it first"},
      {"y: f32(2, 2) = reload(x)",
       "[reload] reads \"x\" in the arena; expected one in the host's memory"},
      {"y: f32(4) = reshape(s) {shape=[4]}",
       "[reshape] reads \"s\" in the host's memory; expected one in the arena: "
       "reload it first"},
      {"w2: f32(2, 2), s2: f32(2, 2) = momentum_update(w, s, x, lr) "
       "{momentum=0.9, decay=0.0}",
       "[momentum_update] reads \"s\" in the host's memory; expected one in "
       "the "
       "arena: reload it first"},
      {"s2: f32(2, 2) = offload_update(w, x)",
       "[offload_update] reads \"w\" in the arena; expected one in the host's "
       "memory"},
      {"y: f32(2, 2) = offload(x)\n"
       "z: f32(2, 2) = offload_update(y, x)",
       "[ir] node 1 (offload_update \"z\") writes in place of \"y\", which is "
       "a "
       "result of node 0; only a whole param, state, cache, fill, own block or "
       "reloaded "
       "value "
       "can be updated, or its new content"},
      {"s2: f32(2, 2) = offload_update(s, x)\n"
       "y: f32(2, 2) = reload(s)",
       "[ir] node 1 (reload \"y\") reads \"s\", an old content of \"s\", which "
       "node 0 (offload_update \"s2\") overwrites; read the update's result, "
       "or "
       "read earlier"},
      {"t: f32(2, 2) = reload(s)\n"
       "w2: f32(2, 2), t2: f32(2, 2) = momentum_update(w, t, x, lr) "
       "{momentum=0.9, decay=0.0}\n"
       "y: f32(2, 2) = neg(t)",
       "[ir] node 2 (neg \"y\") reads \"t\", an old content of \"t\", which "
       "node 1 (momentum_update \"w2\") overwrites; read the update's result, "
       "or read earlier"},
      {"y: f32(2, 2) = offload(x)\n"
       "output \"y\" = y",
       "[ir] output \"y\" is \"y\", which lies in the host's memory; reload "
       "it, "
       "and make that the output"},
  };
  for (const Row& row : rows) {
    INFO(row.lines);
    const Result<Graph> graph =
        ParseGraph(InGraph(std::string(kLeaves) + row.lines));
    const std::string error = graph.ok() ? "" : graph.error().message;
    // What the builder finds already has a line and a column before it.
    CHECK(error.ends_with(row.error));
    CHECK(graph.ok() == (std::string_view(row.error).empty()));
  }
  CHECK(ErrorAfter([](Graph& g) { Peer::Values(g)[0].on_host = true; }) ==
        "[ir] leaf \"x\" has role input and lies in the host's memory; of "
        "leaves, only params and states may");
  CHECK(ErrorAfter([](Graph& g) { Peer::Values(g)[3].on_host = true; }) ==
        "[ir] \"h\" is said to lie in the host's memory; node 0 (add \"h\") "
        "makes it in the arena");
}

}  // namespace
}  // namespace stowage
