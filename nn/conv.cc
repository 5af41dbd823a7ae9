#include "nn/conv.h"

#include "base/strings.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "nn/initializers.h"

namespace stowage {

Value Conv(Value x, std::string_view name, int64_t channels,
           const ConvLayerOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3 || !IsFloat(x.dtype())) {
    return g.Fail(StrCat("[conv] the input of ", Quoted(name), ", ",
                         Quoted(g.info(x).name), ", is ", x.type().ToString(),
                         "; expected a float tensor (N, C, spatial...) with 1 "
                         "to 3 spatial dimensions"),
                  loc);
  }
  const int64_t groups = options.groups;
  if (channels < 1 || groups < 1 || x.dim(1) % groups != 0 ||
      channels % groups != 0) {
    return g.Fail(StrCat("[conv] ", Quoted(name), " makes ", channels,
                         " channels of ", x.dim(1), " in ", groups,
                         " groups; both must be whole multiples of the groups"),
                  loc);
  }
  const Axes kernel = options.kernel.For(spatial);
  if (static_cast<int>(kernel.size()) != spatial) {
    return g.Fail(
        StrCat("[conv] the kernel of ", Quoted(name), " has ", kernel.size(),
               " sizes; its input ", Quoted(g.info(x).name), " has ", spatial,
               " spatial dimensions"),
        loc);
  }
  Shape shape = {channels, x.dim(1) / groups};
  int64_t fan_out = channels / groups;
  for (const int64_t size : kernel) {
    shape.push_back(size);
    fan_out *= size;
  }
  const Value weight = g.Param(StrCat(name, ".weight"), x.dtype(), shape,
                               KaimingNormal(fan_out), loc);
  Value y = Conv(x, weight,
                 {.stride = options.stride,
                  .padding = options.padding,
                  .dilation = options.dilation,
                  .groups = groups},
                 loc);
  if (!y.ok()) return y;
  if (options.bias) {
    y = g.Name(StrCat(name, ".conv"), y, loc);
    const Value bias = g.Param(StrCat(name, ".bias"), x.dtype(), {channels},
                               Init::Zeros(), loc);
    Shape per_channel = {channels};
    for (int i = 0; i < spatial; ++i) per_channel.push_back(1);
    y = Add(y, Reshape(bias, per_channel, loc), loc);
  }
  return g.Name(name, y, loc);
}

}  // namespace stowage
