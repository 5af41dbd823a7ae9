// stand_in: an op of which only the results' types and the cost are known.

#include <numeric>
#include <span>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/ops/shape_rules.h"

namespace stowage::op_defs {
namespace {

TypesResult InferStandIn(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"dtype", AttrKind::kDType},
                                            {"ranks", AttrKind::kInts},
                                            {"dims", AttrKind::kInts},
                                            {"flops", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckNotNegative(args, "flops"));
  const std::vector<int64_t>& ranks = args.attrs.Ints("ranks");
  if (ranks.empty() || ranks.size() > size_t{kMaxResults}) {
    return args.Fail(StrCat("ranks is a list of ", ranks.size(),
                            "; expected the ranks of 1 to ", kMaxResults,
                            " results"));
  }
  std::span<const int64_t> dims = args.attrs.Ints("dims");
  std::vector<TensorType> types;
  for (const int64_t rank : ranks) {
    if (rank < 0 || rank > kMaxRank) {
      return args.Fail(
          StrCat("ranks holds ", rank, "; expected 0 to ", kMaxRank));
    }
    const auto count = static_cast<size_t>(rank);
    if (dims.size() < count) break;
    types.push_back({args.attrs.Type("dtype"), Shape(dims.first(count))});
    dims = dims.subspan(count);
  }
  if (types.size() < ranks.size() || !dims.empty()) {
    return args.Fail(
        StrCat("dims is a list of ", args.attrs.Ints("dims").size(),
               "; the ranks add up to ",
               std::accumulate(ranks.begin(), ranks.end(), int64_t{0})));
  }
  for (const TensorType& type : types) {
    if (type.shape.CheckedNumElements()) continue;
    return args.Fail(StrCat("a result would be ", type.ToString(),
                            "; dimensions must be at least 1 and their "
                            "product fit 63 bits"));
  }
  return Typed(args, std::move(types));
}

}  // namespace

constinit const OpDef StandIn = {
    .num_inputs = kAnyNumber,
    .infer = InferStandIn,
    .flops = [](const OpArgs& args, std::span<const TensorType>) {
      return args.attrs.Float("flops");
    }};

}  // namespace stowage::op_defs
