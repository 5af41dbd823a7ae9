// copy, concat, and the ways to the host's memory and back.

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

TypesResult InferCopy(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  return Typed(args, {args.type(0)});
}

TypesResult InferStashUpdate(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(CheckSameType(args, 0, "state", 1, "x"));
  return Typed(args, {args.type(0)});
}

std::string Part(int i) { return StrCat("part ", i); }

TypesResult InferConcat(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"axis", AttrKind::kInt}}));
  if (args.count() == 0) return args.Fail("has no parts; expected at least 1");
  STOWAGE_RETURN_IF_ERROR(CheckAxis(args, 0, Part(0)));
  const int axis = static_cast<int>(args.attrs.Int("axis"));
  TensorType result = args.type(0);
  for (int i = 1; i < args.count(); ++i) {
    STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, 0, Part(0), i, Part(i)));
    Shape shape = args.shape(i);
    shape[axis] = args.shape(0)[axis];  // in capacity whatever its rank
    if (shape != args.shape(0)) {
      return args.Fail(StrCat("shapes differ: ", Operand(args, 0, Part(0)),
                              ", ", Operand(args, i, Part(i)),
                              "; all dimensions but axis ", axis,
                              " must agree"));
    }
    const auto sum = CheckedAdd(result.shape[axis], args.shape(i)[axis]);
    if (!sum) {
      return args.Fail(StrCat("axis ", axis, " sums to more than 64 bits at ",
                              Operand(args, i, Part(i)),
                              "; join fewer or smaller parts"));
    }
    result.shape[axis] = *sum;
  }
  return Typed(args, {result});
}

}  // namespace

constinit const OpDef Copy = {.infer = InferCopy, .accepts = AcceptAnyStrides};
constinit const OpDef Fetch = {.infer = InferCopy, .host_inputs = 0b1};
constinit const OpDef Stash = {.infer = InferCopy, .results_on_host = true};
constinit const OpDef StashUpdate = {.num_inputs = 2,
                                     .infer = InferStashUpdate,
                                     .updates = 1,
                                     .host_inputs = 0b1,
                                     .results_on_host = true};
constinit const OpDef Concat = {.num_inputs = kAnyNumber,
                                .infer = InferConcat,
                                .accepts = AcceptAnyStrides};

}  // namespace stowage::op_defs
