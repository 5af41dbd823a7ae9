#include "nn/lora.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "ir/graph.h"
#include "ir/ops.h"

namespace stowage {

Value Lora(Value x, std::string_view name, int64_t out_features,
           const LoraOptions& options, SourceLoc loc) {
  const Value base = Linear(x, name, out_features, options.base, loc);
  if (!base.ok()) return base;
  GraphBuilder& g = *x.builder();
  const int64_t in_features = x.shape().back();
  const int64_t rank = options.rank;
  if (rank < 1 || rank > std::min(in_features, out_features)) {
    return g.Fail(
        StrCat("[lora] ", Quoted(name), " has rank ", rank,
               " beside a weight (", in_features, ", ", out_features,
               "); expected 1 to ", std::min(in_features, out_features)),
        loc);
  }
  if (!std::isfinite(options.alpha)) {
    return g.Fail(StrCat("[lora] ", Quoted(name), " has alpha ", options.alpha,
                         "; expected a finite number"),
                  loc);
  }
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  const Value down = Linear(x, StrCat(name, ".lora_A"), rank,
                            {.bias = false, .init = Init::Uniform(bound)}, loc);
  // The thin value takes the factor.
  const Value scaled =
      MulScalar(down, options.alpha / static_cast<double>(rank), loc);
  const Value up = Linear(scaled, StrCat(name, ".lora_B"), out_features,
                          {.bias = false, .init = Init::Zeros()}, loc);
  return g.Name(StrCat(name, ".adapted"), Add(base, up, loc), loc);
}

}  // namespace stowage
