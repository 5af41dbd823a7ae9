// The collectives of a step's ranks: all_reduce, reduce_scatter, all_gather,
// all_gather_update, own_block.

#include <cstdint>
#include <limits>

#include "base/strings.h"
#include "ir/element_groups.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

Status CheckRanks(const OpArgs& args) {
  const int64_t ranks = args.attrs.Int("ranks");
  if (ranks >= 1) return {};
  return args.Fail(StrCat("ranks is ", ranks, "; expected at least 1"));
}

// Error: a type that ranks do not sum, such as small integers.
Status CheckSummed(const OpArgs& args) {
  const DType dtype = args.type(0).dtype;
  if (IsFloat(dtype) || dtype == DType::kI32 || dtype == DType::kI64) return {};
  return args.Fail(
      StrCat(Operand(args, 0, "x"), "; expected a float, i32 or i64"));
}

// This rank's block of operand 0.
TypesResult InferBlock(const OpArgs& args) {
  const int64_t ranks = args.attrs.Int("ranks");
  const int64_t granule = args.attrs.Int("granule");
  constexpr int64_t kMaxElements = int64_t{1} << 20;
  if (granule < 1 || granule > kMaxElements) {
    return args.Fail(
        StrCat("granule is ", granule, "; expected 1 to ", kMaxElements));
  }
  const int64_t elements = args.shape(0).num_elements();
  if (elements > std::numeric_limits<int64_t>::max() - granule) {
    return args.Fail(StrCat(Operand(args, 0, "x"), ", too much for a block"));
  }
  return Typed(args,
               {{args.type(0).dtype, {RankBlock(elements, ranks, granule)}}});
}

TypesResult InferAllReduce(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"ranks", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckRanks(args));
  STOWAGE_RETURN_IF_ERROR(CheckSummed(args));
  return Typed(args, {args.type(0)});
}

TypesResult InferReduceScatter(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(
      args, {{"ranks", AttrKind::kInt}, {"granule", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckRanks(args));
  STOWAGE_RETURN_IF_ERROR(CheckSummed(args));
  return InferBlock(args);
}

TypesResult InferOwnBlock(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(
      args, {{"ranks", AttrKind::kInt}, {"granule", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckRanks(args));
  return InferBlock(args);
}

// Error: operand `i` is no block of `whole`: flat, and at least the smallest block.
Status CheckBlock(const OpArgs& args, int i, const TensorType& whole) {
  const int64_t ranks = args.attrs.Int("ranks");
  const auto elements = whole.shape.CheckedNumElements();
  const int64_t least = elements ? RankBlock(*elements, ranks, 1) : 0;
  const TensorType& block = args.type(i);
  if (block.dtype == whole.dtype && block.shape.rank() == 1 &&
      block.shape[0] >= least) {
    return {};
  }
  return args.Fail(StrCat(Operand(args, i, "block"), "; expected ",
                          TensorType{whole.dtype, {least}}.ToString(),
                          " or longer, one of ", ranks, " of ",
                          whole.ToString()));
}

TypesResult InferAllGather(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(
      args, {{"ranks", AttrKind::kInt}, {"shape", AttrKind::kInts}}));
  STOWAGE_RETURN_IF_ERROR(CheckRanks(args));
  STOWAGE_ASSIGN_OR_RETURN(const Shape shape, ShapeAttr(args));
  const TensorType whole = {args.type(0).dtype, shape};
  STOWAGE_RETURN_IF_ERROR(CheckBlock(args, 0, whole));
  return Typed(args, {whole});
}

TypesResult InferAllGatherUpdate(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"ranks", AttrKind::kInt}}));
  STOWAGE_RETURN_IF_ERROR(CheckRanks(args));
  STOWAGE_RETURN_IF_ERROR(CheckBlock(args, 1, args.type(0)));
  return Typed(args, {args.type(0)});
}

// An addition for each element and each rank but one; a rank makes a block of them.
double FlopsOfSums(const OpArgs& args, std::span<const TensorType>) {
  const double ranks = static_cast<double>(args.attrs.Int("ranks"));
  return Elements(args.type(0)) * (ranks - 1) / ranks;
}

}  // namespace

constinit const OpDef AllReduce = {.infer = InferAllReduce,
                                   .flops = FlopsOfSums,
                                   .may_overwrite = 0b1,
                                   .collective = true};
constinit const OpDef ReduceScatter = {
    .infer = InferReduceScatter, .flops = FlopsOfSums, .collective = true};
constinit const OpDef AllGather = {.infer = InferAllGather, .collective = true};
constinit const OpDef AllGatherUpdate = {.num_inputs = 2,
                                         .infer = InferAllGatherUpdate,
                                         .updates = 1,
                                         .collective = true};
constinit const OpDef OwnBlock = {.infer = InferOwnBlock, .collective = true};

}  // namespace stowage::op_defs
