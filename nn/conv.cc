#include "nn/conv.h"

#include <cmath>

#include "base/strings.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "nn/initializers.h"

namespace stowage {
namespace {

// Whether x has 1 to 3 spatial dimensions and the kernel a size for each; if not, the
// builder has the error.
bool CheckInput(Value x, std::string_view op, std::string_view name,
                const Axes& kernel, SourceLoc loc) {
  GraphBuilder& g = *x.builder();
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3 || !IsFloat(x.dtype())) {
    g.Fail(StrCat("[", op, "] the input of ", Quoted(name), ", ",
                  Quoted(g.info(x).name), ", is ", x.type().ToString(),
                  "; expected a float tensor (N, C, spatial...) with 1 to 3 "
                  "spatial dimensions"),
           loc);
    return false;
  }
  if (static_cast<int>(kernel.size()) != spatial) {
    g.Fail(StrCat("[", op, "] the kernel of ", Quoted(name), " has ",
                  kernel.size(), " sizes; its input ", Quoted(g.info(x).name),
                  " has ", spatial, " spatial dimensions"),
           loc);
    return false;
  }
  return true;
}

// y (N, channels, ...) with the layer's bias, if it has one, under its name.
Value Finish(Value y, std::string_view name, std::string_view op, bool bias,
             SourceLoc loc) {
  if (!y.ok()) return y;
  GraphBuilder& g = *y.builder();
  if (bias) {
    y = g.Name(StrCat(name, ".", op), y, loc);
    const int64_t channels = y.dim(1);
    const Value b = g.Param(StrCat(name, ".bias"), y.dtype(), {channels},
                            Init::Zeros(), loc);
    Shape per_channel = {channels};
    while (per_channel.rank() < y.rank() - 1) per_channel.push_back(1);
    y = Add(y, Reshape(b, per_channel, loc), loc);
  }
  return g.Name(name, y, loc);
}

}  // namespace

Value Conv(Value x, std::string_view name, int64_t channels,
           const ConvLayerOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const Axes kernel = options.kernel.For(x.rank() - 2);
  if (!CheckInput(x, "conv", name, kernel, loc)) return {};
  const int64_t groups = options.groups;
  if (channels < 1 || groups < 1 || x.dim(1) % groups != 0 ||
      channels % groups != 0) {
    return g.Fail(StrCat("[conv] ", Quoted(name), " makes ", channels,
                         " channels of ", x.dim(1), " in ", groups,
                         " groups; both must be whole multiples of the groups"),
                  loc);
  }
  Shape shape = {channels, x.dim(1) / groups};
  int64_t fan_out = channels / groups;
  for (const int64_t size : kernel) {
    shape.push_back(size);
    fan_out *= size;
  }
  const Value weight =
      g.Param(StrCat(name, ".weight"), x.dtype(), shape,
              options.init.value_or(KaimingNormal(fan_out)), loc);
  const Value y = Conv(x, weight,
                       {.stride = options.stride,
                        .padding = options.padding,
                        .dilation = options.dilation,
                        .groups = groups},
                       loc);
  return Finish(y, name, "conv", options.bias, loc);
}

Value ConvTranspose(Value x, std::string_view name, int64_t channels,
                    const ConvTransposeLayerOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const Axes kernel = options.kernel.For(x.rank() - 2);
  if (!CheckInput(x, "conv_transpose", name, kernel, loc)) return {};
  if (channels < 1) {
    return g.Fail(StrCat("[conv_transpose] ", Quoted(name), " makes ", channels,
                         " channels; expected at least 1"),
                  loc);
  }
  Shape shape = {x.dim(1), channels};
  auto fan_in = static_cast<double>(x.dim(1));
  for (const int64_t size : kernel) {
    shape.push_back(size);
    fan_in *= static_cast<double>(size);
  }
  for (const int64_t stride : options.stride.For(x.rank() - 2)) {
    fan_in /= static_cast<double>(stride);
  }
  const Value weight =
      g.Param(StrCat(name, ".weight"), x.dtype(), shape,
              Init::Normal(kReluGain / std::sqrt(fan_in)), loc);
  const Value y = ConvTranspose(x, weight, {.stride = options.stride}, loc);
  return Finish(y, name, "conv_transpose", options.bias, loc);
}

}  // namespace stowage
