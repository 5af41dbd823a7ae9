// Ops that a program defines itself: their names, their types, and what becomes of
// graphs that hold them. What it takes to run one is in tests/laws/own_ops_test.cc.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph_bytes.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/ops/shape_rules.h"
#include "ir/text.h"
#include "ir/weight_type.h"

namespace stowage {
namespace {

using op_defs::AttrKind;
using op_defs::CheckAttrs;
using op_defs::CheckDType;
using op_defs::DTypes;
using op_defs::Typed;
using op_defs::TypesResult;

TypesResult InferScaled(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"factor", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  return Typed(args, {args.type(0)});
}

// Defined as globals are: before main, in the order of this file.
const Result<OpKind> kScaled =
    DefineOp("scaled_for_test",
             {.num_inputs = 1, .infer = InferScaled, .may_overwrite = 0b1});

Graph ScaledGraph() {
  GraphBuilder g("scaled");
  const Value x = g.Input("x", DType::kF32, {2, 3});
  g.Output("y", Apply(*kScaled, {x}, {{"factor", 2.5}}));
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

std::string Refusal(std::string_view name, const OpDef& def) {
  const Result<OpKind> op = DefineOp(name, def);
  return op.ok() ? "" : op.error().message;
}

TEST_CASE("an op of one's own has a name, a kind and a definition") {
  REQUIRE(kScaled.ok());
  CHECK(OpName(*kScaled) == "scaled_for_test");
  CHECK(FindOp("scaled_for_test") == *kScaled);
  CHECK(CustomIndex(*kScaled).has_value());
  CHECK(!CustomIndex(OpKind::kMatMul).has_value());
  CHECK((GetOpDef(*kScaled).infer == &InferScaled));
  CHECK(GetOpDef(*kScaled).may_overwrite_operand(0));
}

TEST_CASE(
    "an attribute that an op of ours has may mean what it likes in another") {
  static const Result<OpKind> loose =
      DefineOp("blocks_for_test",
               {.num_inputs = 1, .infer = [](const OpArgs& args) {
                  return Result<std::vector<TensorType>>({args.type(0)});
                }});
  REQUIRE(loose.ok());
  GraphBuilder g("blocks");
  const Value w = g.Param("w", DType::kU8, {2, 36});
  g.Output("real", Apply(*loose, {w}, {{"blocks", 2.5}}));
  g.Output("far", Apply(*loose, {w}, {{"blocks", int64_t{999}}}));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  CHECK(ParameterCount(*graph) == 72);
}

TEST_CASE("it is typed as its definition says, with the caller's line") {
  GraphBuilder g("wrong");
  const Value x = g.Input("x", DType::kI32, {4});
  const Value y = Apply(*kScaled, {x}, {{"factor", 2.0}});
  CHECK(!y.ok());
  const Result<Graph> graph = g.Finish();
  REQUIRE(!graph.ok());
  CHECK(graph.error().message.find("[scaled_for_test]") != std::string::npos);
  CHECK(graph.error().message.find("\"x\" is i32(4)") != std::string::npos);
  CHECK(graph.error().message.find("custom_op_test.cc:") != std::string::npos);
}

TEST_CASE("its number of operands is checked before infer is asked") {
  GraphBuilder g("wrong");
  const Value x = g.Input("x", DType::kF32, {4});
  const std::vector<Value> results =
      ApplyAll(*kScaled, std::vector<Value>{x, x}, {{"factor", 2.0}});
  CHECK(results.size() == size_t{kMaxResults});
  CHECK(!results[0].ok());
  CHECK(!g.Finish().ok());
}

TEST_CASE("graphs with it are printed, parsed and kept in bytes by its name") {
  const Graph graph = ScaledGraph();
  const std::string text = ToText(graph);
  CHECK(text.find("scaled_for_test(x) {factor=2.5}") != std::string::npos);
  const Result<Graph> parsed = ParseGraph(text);
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
  CHECK(Equal(*parsed, graph));

  const std::string bytes = ToBytes(graph);
  CHECK(bytes.find("scaled_for_test") != std::string::npos);
  const Result<Graph> read = GraphFromBytes(bytes);
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  CHECK(Equal(*read, graph));
}

TEST_CASE("bytes with an op that this program lacks name it") {
  std::string bytes = ToBytes(ScaledGraph());
  const size_t at = bytes.find("scaled_for_test");
  REQUIRE(at != std::string::npos);
  bytes[at] = 'x';
  const Result<Graph> read = GraphFromBytes(bytes);
  REQUIRE(!read.ok());
  CHECK(read.error().message.find("there is no op \"xcaled_for_test\"") !=
        std::string::npos);
  const Result<Graph> parsed = ParseGraph(
      "stowage-ir 1\ngraph \"g\" {\n  x: f32(2) = input\n"
      "  y: f32(2) = nowhere(x) {}\n  output \"y\" = y\n}\n");
  REQUIRE(!parsed.ok());
  CHECK(parsed.error().message.find("there is no op \"nowhere\"") !=
        std::string::npos);
}

TEST_CASE("a definition that cannot be is refused with its reason") {
  const OpDef fine = {.infer = InferScaled};
  CHECK(Refusal("", fine).find("is no name for an op") != std::string::npos);
  CHECK(Refusal("Huber", fine).find("\"Huber\" is no name") !=
        std::string::npos);
  CHECK(Refusal("my op", fine).find("is no name") != std::string::npos);
  CHECK(Refusal("2x", fine).find("is no name") != std::string::npos);
  CHECK(Refusal("matmul", fine).find("is the name of an op already") !=
        std::string::npos);
  CHECK(Refusal("scaled_for_test", fine).find("already") != std::string::npos);
  CHECK(Refusal("no_infer_for_test", {}).find("without infer") !=
        std::string::npos);
  CHECK(!FindOp("no_infer_for_test"));
  const OpDef::ViewFn view = [](const OpArgs&, int, const ViewLayout& x) {
    return std::optional(x);
  };
  CHECK(Refusal("writing_view_for_test",
                {.infer = InferScaled, .view = view, .may_overwrite = 0b1})
            .find("a view that writes") != std::string::npos);
  CHECK(
      CustomOpIndex(OpKind::kMatMul, "CPU kernel")
          .error()
          .message.find("CPU kernel is given for matmul, which has its own") !=
      std::string::npos);
  CHECK(CustomOpIndex(static_cast<OpKind>(kNumOps + kMaxCustomOps - 1),
                      "derivative")
            .error()
            .message.find("an op that is not defined") != std::string::npos);
}

// Last, for there is no room for further ops afterwards.
TEST_CASE("one op too many is refused, with how many there may be") {
  Result<OpKind> last = *kScaled;
  int defined = 0;
  while (last.ok() && defined <= kMaxCustomOps) {
    last = DefineOp(StrCat("filler_", defined, "_for_test"),
                    {.infer = InferScaled});
    if (last.ok()) ++defined;
  }
  REQUIRE(!last.ok());
  CHECK(defined == kMaxCustomOps - 2);  // all but the two above
  CHECK(last.error().message.find("one op too many: 128 are defined") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage
