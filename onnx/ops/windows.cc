// Convolutions and pooling.

#include <algorithm>

#include "base/strings.h"
#include "ir/ops.h"
#include "onnx/ops.h"

namespace stowage::onnx {
namespace {

using Ints = std::vector<int64_t>;

// The windows of a node over x (N, C, spatial...).
struct Windows {
  Ints kernel = {}, stride = {}, dilation = {};
  Ints padding = {};  // before each dimension, then after each
  bool ceil_mode = false;
};

// SAME padding: `out` is the dimension divided by the stride, rounded up. An odd element goes to
// the end, or to the front with `lower`.
void PadToSame(const Shape& x, bool lower, Windows* windows) {
  const size_t count = windows->kernel.size();
  windows->padding.assign(2 * count, 0);
  for (size_t i = 0; i < count; ++i) {
    const int64_t in = x[static_cast<int>(i) + 2];
    const int64_t extent = (windows->kernel[i] - 1) * windows->dilation[i] + 1;
    const int64_t out = (in + windows->stride[i] - 1) / windows->stride[i];
    const int64_t both =
        std::max<int64_t>(0, (out - 1) * windows->stride[i] + extent - in);
    windows->padding[i] = lower ? both - both / 2 : both / 2;
    windows->padding[count + i] = both - windows->padding[i];
  }
}

Result<Windows> WindowsOf(ImportedNode& node, const Ints& kernel) {
  const Shape& x = node.ShapeOf(0);
  const auto count = static_cast<size_t>(std::max(x.rank() - 2, 0));
  const Ints ones(count, 1);
  Windows windows{.kernel = kernel,
                  .stride = node.IntList("strides", ones),
                  .dilation = node.IntList("dilations", ones),
                  .padding = node.IntList("pads", Ints(2 * count, 0)),
                  .ceil_mode = node.Int("ceil_mode", 0) != 0};
  if (count < 1 || count > 3 || kernel.size() != count ||
      windows.stride.size() != count || windows.dilation.size() != count ||
      windows.padding.size() != 2 * count) {
    return node.Wrong(StrCat(
        "slides over ", x.ToString(), " with ", kernel.size(),
        " kernel sizes, ", windows.stride.size(), " strides, ",
        windows.dilation.size(), " dilations and ", windows.padding.size(),
        " pads; expected one for each of 1 to 3 spatial dimensions, and two "
        "pads"));
  }
  for (size_t i = 0; i < count; ++i) {
    if (kernel[i] < 1 || windows.stride[i] < 1 || windows.dilation[i] < 1 ||
        kernel[i] > (int64_t{1} << 31) ||
        windows.stride[i] > (int64_t{1} << 31) ||
        windows.dilation[i] > (int64_t{1} << 31)) {
      return node.Wrong(StrCat("has a kernel of ", kernel[i], ", a stride of ",
                               windows.stride[i], " and a dilation of ",
                               windows.dilation[i],
                               "; expected at least 1 and less than 2^31"));
    }
  }
  const std::string automatic = node.Text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    PadToSame(x, automatic == "SAME_LOWER", &windows);
  } else if (automatic == "VALID") {
    windows.padding.assign(2 * count, 0);
  } else if (automatic != "NOTSET" && !automatic.empty()) {
    return node.Wrong(StrCat("pads by ", Quoted(automatic)));
  }
  return windows;
}

// Checks the kernel attribute against the shape of w.
Result<Ints> KernelOf(ImportedNode& node) {
  const Shape& w = node.ShapeOf(1);
  Ints kernel;
  for (int i = 2; i < w.rank(); ++i) kernel.push_back(w[i]);
  if (node.Find("kernel_shape") && node.IntList("kernel_shape") != kernel) {
    return node.Wrong(StrCat("names another kernel than its weights ",
                             w.ToString(), " have"));
  }
  return kernel;
}

// Adds one number per channel, along dimension 1 of y.
Value PlusBias(ImportedNode& node, int i, Value y) {
  if (!node.Has(i) || !y.ok()) return y;
  return Add(y, PerChannel(node.In(i), y.rank()));
}

Axes SpatialAxes(const Shape& x) {
  Axes axes;
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

PoolWindow PoolOf(const Windows& windows) {
  return {.kernel = windows.kernel,
          .stride = windows.stride,
          .padding = windows.padding,
          .dilation = windows.dilation,
          .ceil_mode = windows.ceil_mode};
}

}  // namespace

Result<Values> ConvertConv(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Ints kernel, KernelOf(node));
  STOWAGE_ASSIGN_OR_RETURN(const Windows windows, WindowsOf(node, kernel));
  const Value y = Conv(node.In(0), node.In(1),
                       {.stride = windows.stride,
                        .padding = windows.padding,
                        .dilation = windows.dilation,
                        .groups = node.Int("group", 1)});
  return Values{PlusBias(node, 2, y)};
}

Result<Values> ConvertConvTranspose(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Ints kernel, KernelOf(node));
  STOWAGE_ASSIGN_OR_RETURN(Windows windows, WindowsOf(node, kernel));
  const Shape& x = node.ShapeOf(0);
  const size_t count = kernel.size();
  const Ints more = node.IntList("output_padding", Ints(count, 0));
  Ints sizes = node.IntList("output_shape");
  const std::string automatic = node.Text("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (more.size() != count) {
    return node.Wrong(StrCat("has ", more.size(), " output paddings for ",
                             count, " dimensions"));
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t in = x[static_cast<int>(i) + 2];
    constexpr int64_t kMax = int64_t{1} << 30;
    if (in > kMax || more[i] < 0 || more[i] > kMax) {
      return node.Unsupported(StrCat("spreads ", in,
                                     " elements, with an output padding of ",
                                     more[i], "; at most ", kMax, " can be"));
    }
  }
  if (sizes.size() > count) {
    sizes.erase(sizes.begin(), sizes.end() - static_cast<int64_t>(count));
  }
  if (sizes.empty() && same) {
    for (size_t i = 0; i < count; ++i) {
      sizes.push_back(x[static_cast<int>(i) + 2] * windows.stride[i]);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t in = x[static_cast<int>(i) + 2];
    const int64_t whole = (in - 1) * windows.stride[i] +
                          (kernel[i] - 1) * windows.dilation[i] + 1 + more[i];
    if (!sizes.empty()) {
      // The difference to the full size is padding, more of it at the end, or for SAME_UPPER
      // at the front, as ONNX specifies.
      const int64_t both = std::max<int64_t>(0, whole - sizes[i]);
      windows.padding[i] =
          automatic == "SAME_UPPER" ? both / 2 : both - both / 2;
      windows.padding[count + i] = both - windows.padding[i];
    }
  }
  if (sizes.empty()) {
    for (size_t i = 0; i < count; ++i) {
      sizes.push_back((x[static_cast<int>(i) + 2] - 1) * windows.stride[i] +
                      (kernel[i] - 1) * windows.dilation[i] + 1 + more[i] -
                      windows.padding[i] - windows.padding[count + i]);
    }
  }
  const Value y = ConvTranspose(node.In(0), node.In(1),
                                {.stride = windows.stride,
                                 .padding = windows.padding,
                                 .dilation = windows.dilation,
                                 .groups = node.Int("group", 1),
                                 .size = sizes});
  return Values{PlusBias(node, 2, y)};
}

Result<Values> ConvertMaxPool(ImportedNode& node) {
  if (node.Wants(1)) {
    return node.Unsupported(
        "gives out where its maxima lie; expected one "
        "result");
  }
  STOWAGE_ASSIGN_OR_RETURN(const Windows windows,
                           WindowsOf(node, node.IntList("kernel_shape")));
  return Values{MaxPool(node.In(0), PoolOf(windows))};
}

Result<Values> ConvertAveragePool(ImportedNode& node) {
  STOWAGE_ASSIGN_OR_RETURN(const Windows windows,
                           WindowsOf(node, node.IntList("kernel_shape")));
  for (const int64_t dilation : windows.dilation) {
    if (dilation != 1) {
      return node.Unsupported(
          StrCat("has a dilation of ", dilation, "; expected 1"));
    }
  }
  return Values{AvgPool(node.In(0), PoolOf(windows),
                        node.Int("count_include_pad", 0) != 0)};
}

Result<Values> ConvertGlobalAveragePool(ImportedNode& node) {
  return Values{
      ReduceMean(node.In(0), SpatialAxes(node.ShapeOf(0)), /*keep=*/true)};
}
Result<Values> ConvertGlobalMaxPool(ImportedNode& node) {
  return Values{
      ReduceMax(node.In(0), SpatialAxes(node.ShapeOf(0)), /*keep=*/true)};
}

}  // namespace stowage::onnx
