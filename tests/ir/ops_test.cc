#include "ir/ops.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"
#include "tests/ir/op_rows.h"

namespace stowage {
namespace {

// One row an op at least; the second test below insists.
std::vector<TypeRow> Rows() {
  std::vector<TypeRow> rows = ValueTypeRows();
  rows.insert(rows.end(), LayerTypeRows().begin(), LayerTypeRows().end());
  return rows;
}

TEST_CASE("result types follow from operands") {
  for (const TypeRow& row : Rows()) {
    INFO(row.what);
    GraphBuilder g("rows");
    std::vector<std::string> types;
    for (const Value& value : row.build(g)) {
      REQUIRE(value.ok());
      types.push_back(value.type().ToString());
    }
    CHECK(types == row.types);
    CHECK(g.Finish().ok());
  }
}

TEST_CASE("every op is in the table of types") {
  std::set<OpKind> seen;
  for (const TypeRow& row : Rows()) {
    GraphBuilder g("rows");
    row.build(g);
    for (const Node& node : g.graph().nodes()) seen.insert(node.op);
  }
  // tests/ir/control_flow_test.cc
  seen.insert(OpKind::kLoop);
  seen.insert(OpKind::kCond);
  // tests/ir/ops_fused_test.cc
  seen.insert(OpKind::kFusedElementwise);
  seen.insert(OpKind::kFusedMatMul);
  for (int i = 0; i < kNumOps; ++i) {
    const auto op = static_cast<OpKind>(i);
    INFO(std::string(OpName(op)));
    CHECK(seen.contains(op));
  }
}

// Some value of another kind than `value`.
AttrValue OtherKind(const AttrValue& value) {
  if (std::holds_alternative<std::string>(value)) return int64_t{1};
  return std::string("bytes");
}

TEST_CASE(
    "attributes that are missing, mistyped, unknown or doubled are errors") {
  for (const TypeRow& row : Rows()) {
    GraphBuilder g("rows");
    row.build(g);
    const Graph& graph = g.graph();
    for (const Node& node : graph.nodes()) {
      INFO(std::string(OpName(node.op)));
      OpArgsStorage storage;
      const OpArgs good = MakeOpArgs(graph, node, &storage);
      const auto infers = [&](const Attrs& attrs) {
        return GetOpDef(node.op)
            .infer(OpArgs{good.op, good.types, good.names, attrs})
            .ok();
      };
      REQUIRE(infers(node.attrs));
      Attrs unknown = node.attrs;
      unknown.Set("colour", int64_t{1});
      CHECK_FALSE(infers(unknown));
      const auto& entries = node.attrs.entries();
      for (size_t bad = 0; bad < entries.size(); ++bad) {
        INFO(entries[bad].first);
        Attrs missing;
        for (size_t i = 0; i < entries.size(); ++i) {
          if (i != bad) missing.Set(entries[i].first, entries[i].second);
        }
        // Into parts or not: both are gradients of a norm.
        CHECK(infers(missing) == (entries[bad].first == "parts"));
        Attrs mistyped = node.attrs;
        mistyped.Set(entries[bad].first, OtherKind(entries[bad].second));
        CHECK_FALSE(infers(mistyped));
        const Attrs doubled = entries.size() == 1
                                  ? Attrs{entries[0], entries[0]}
                                  : Attrs{entries[0], entries[1], entries[0]};
        CHECK_FALSE(infers(doubled));
      }
    }
  }
}

TEST_CASE("elementwise ops take the element types they can compute") {
  const std::set<DType> floats = {DType::kF32, DType::kF64, DType::kF16,
                                  DType::kBF16};
  std::set<DType> numbers = floats;
  numbers.insert({DType::kI16, DType::kI32, DType::kI64, DType::kU8});
  std::set<DType> all = numbers;
  all.insert(DType::kBool);
  struct OpRow {
    std::vector<OpKind> ops;
    std::set<DType> taken;
  };
  const OpRow unary[] = {
      {{OpKind::kNeg, OpKind::kAbs, OpKind::kSign}, numbers},
      {{OpKind::kExp,      OpKind::kLog,      OpKind::kSqrt,
        OpKind::kRsqrt,    OpKind::kSquare,   OpKind::kReciprocal,
        OpKind::kSin,      OpKind::kCos,      OpKind::kRelu,
        OpKind::kSilu,     OpKind::kSigmoid,  OpKind::kTanh,
        OpKind::kGeluTanh, OpKind::kGeluErf,  OpKind::kExpm1,
        OpKind::kLog1p,    OpKind::kErf,      OpKind::kFloor,
        OpKind::kCeil,     OpKind::kRound,    OpKind::kSoftplus,
        OpKind::kMish,     OpKind::kHardSwish},
       floats},
      {{OpKind::kLogicalNot}, {DType::kBool}},
      {{OpKind::kCopy, OpKind::kOffload}, all},
  };
  const OpRow binary[] = {
      {{OpKind::kAdd, OpKind::kSub, OpKind::kMul, OpKind::kMaximum,
        OpKind::kMinimum, OpKind::kLess, OpKind::kLessEqual, OpKind::kGreater,
        OpKind::kGreaterEqual},
       numbers},
      {{OpKind::kEqual, OpKind::kNotEqual}, all},
      {{OpKind::kDiv, OpKind::kPow, OpKind::kReluGrad, OpKind::kSigmoidGrad,
        OpKind::kTanhGrad, OpKind::kSiluGrad, OpKind::kGeluTanhGrad,
        OpKind::kGeluErfGrad, OpKind::kMishGrad, OpKind::kHardSwishGrad,
        OpKind::kRemainder, OpKind::kFmod},
       floats},
      {{OpKind::kLogicalAnd, OpKind::kLogicalOr}, {DType::kBool}},
  };
  const std::string_view names[] = {"a", "b"};
  const Attrs none;
  const auto check = [&](std::span<const OpRow> rows, size_t operands) {
    for (const OpRow& row : rows) {
      for (const OpKind op : row.ops) {
        for (const DType dtype : kAllDTypes) {
          INFO(std::string(OpName(op))
               << " of " << std::string(DTypeName(dtype)));
          const std::vector<TensorType> types(operands, {dtype, {2}});
          const OpArgs args = {op, types, std::span(names).first(operands),
                               none};
          CHECK(GetOpDef(op).infer(args).ok() == row.taken.contains(dtype));
        }
      }
    }
  };
  check(unary, 1);
  check(binary, 2);
}

TEST_CASE("a stand_in's attributes must say results that can be") {
  struct BadRow {
    std::vector<int64_t> ranks, dims;
    double flops;
    const char* message;
  };
  const BadRow rows[] = {
      {{},
       {},
       0,
       "[stand_in] ranks is a list of 0; expected the ranks of 1 to 8 results"},
      {{0, 0, 0, 0, 0, 0, 0, 0, 0},
       {},
       0,
       "[stand_in] ranks is a list of 9; expected the ranks of 1 to 8 results"},
      {{-1}, {}, 0, "[stand_in] ranks holds -1; expected 0 to 8"},
      {{9},
       {1, 1, 1, 1, 1, 1, 1, 1, 1},
       0,
       "[stand_in] ranks holds 9; expected 0 to 8"},
      {{2, 1},
       {4, 5},
       0,
       "[stand_in] dims is a list of 2; the ranks add up to 3"},
      {{1}, {4, 5}, 0, "[stand_in] dims is a list of 2; the ranks add up to 1"},
      {{1},
       {0},
       0,
       "[stand_in] a result would be f32(0); dimensions must be at least 1 and "
       "their product fit 63 bits"},
      {{1},
       {4},
       -1,
       "[stand_in] flops is -1; expected a finite number of at least 0"},
  };
  for (const BadRow& row : rows) {
    INFO(row.message);
    const Attrs attrs = {{"dtype", DType::kF32},
                         {"ranks", row.ranks},
                         {"dims", row.dims},
                         {"flops", row.flops}};
    const OpArgs args = {OpKind::kStandIn, {}, {}, attrs};
    const auto types = GetOpDef(OpKind::kStandIn).infer(args);
    REQUIRE_FALSE(types.ok());
    CHECK(types.error().message == row.message);
  }
}

}  // namespace
}  // namespace stowage
