#include "nn/norms.h"

#include "base/strings.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/shape.h"

namespace stowage {
namespace {

// Fails where x is no float tensor of at least `rank` dimensions.
bool TakesFeatures(std::string_view op, Value x, std::string_view name,
                   int rank, SourceLoc loc) {
  if (x.rank() >= rank && IsFloat(x.dtype())) return true;
  x.builder()->Fail(
      StrCat("[", op, "] the input of ", Quoted(name), ", ",
             Quoted(x.builder()->info(x).name), ", is ", x.type().ToString(),
             "; expected a float tensor of rank ", rank, " or more"),
      loc);
  return false;
}

struct Affine {
  Value weight, bias;  // (C)
};
Affine AffineParams(Value x, std::string_view name, SourceLoc loc) {
  GraphBuilder& g = *x.builder();
  const Shape channels = {x.dim(1)};
  return {
      g.Param(StrCat(name, ".weight"), x.dtype(), channels, Init::Ones(), loc),
      g.Param(StrCat(name, ".bias"), x.dtype(), channels, Init::Zeros(), loc)};
}

// x as one example of `count` channels, normalized by the "batch", which is that
// example: a batch norm that keeps x and two numbers a channel.
Value NormalizeChannels(Value x, int64_t count, Value gamma, Value beta,
                        double eps, SourceLoc loc) {
  const Value rows =
      Reshape(x, {1, count, x.shape().num_elements() / count}, loc);
  return Reshape(BatchNorm(rows, gamma, beta, eps, loc).y, x.shape(), loc);
}

}  // namespace

Value RmsNorm(Value x, std::string_view name, double eps, SourceLoc loc) {
  if (!x.ok() || !TakesFeatures("rms_norm", x, name, 1, loc)) return Value();
  GraphBuilder& g = *x.builder();
  const Value gamma = g.Param(StrCat(name, ".weight"), x.dtype(),
                              {x.shape().back()}, Init::Ones(), loc);
  return g.Name(name, RmsNorm(x, gamma, eps, loc), loc);
}

Value GroupNorm(Value x, std::string_view name, int64_t groups, double eps,
                SourceLoc loc) {
  if (!x.ok() || !TakesFeatures("group_norm", x, name, 2, loc)) return Value();
  GraphBuilder& g = *x.builder();
  const int64_t channels = x.dim(1);
  if (groups < 1 || channels % groups != 0) {
    return g.Fail(
        StrCat("[group_norm] ", Quoted(name), " has ", groups, " groups over ",
               channels, " channels of ", Quoted(g.info(x).name),
               "; the channels must be a positive multiple of the "
               "groups"),
        loc);
  }
  const auto [weight, bias] = AffineParams(x, name, loc);
  const int64_t count = x.dim(0) * groups;
  const Value normal =
      NormalizeChannels(x, count, Fill(g, 1, x.dtype(), {count}, loc),
                        Fill(g, 0, x.dtype(), {count}, loc), eps, loc);
  Shape per_channel = {channels};
  while (per_channel.rank() < x.rank() - 1) per_channel.push_back(1);
  return g.Name(name,
                Add(Mul(normal, Reshape(weight, per_channel, loc), loc),
                    Reshape(bias, per_channel, loc), loc),
                loc);
}

Value InstanceNorm(Value x, std::string_view name,
                   const InstanceNormOptions& options, SourceLoc loc) {
  if (!x.ok() || !TakesFeatures("instance_norm", x, name, 3, loc)) {
    return Value();
  }
  GraphBuilder& g = *x.builder();
  const int64_t channels = x.dim(1);
  const int64_t count = x.dim(0) * channels;
  Affine affine;
  if (options.affine) {
    affine = AffineParams(x, name, loc);
    for (Value* param : {&affine.weight, &affine.bias}) {
      *param =
          Reshape(BroadcastTo(*param, {x.dim(0), channels}, loc), {count}, loc);
    }
  } else {
    affine = {Fill(g, 1, x.dtype(), {count}, loc),
              Fill(g, 0, x.dtype(), {count}, loc)};
  }
  return g.Name(
      name,
      NormalizeChannels(x, count, affine.weight, affine.bias, options.eps, loc),
      loc);
}

}  // namespace stowage
