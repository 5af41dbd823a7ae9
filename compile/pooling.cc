// Pooling and resizing along the spatial axes of (N, C, spatial...).

#include "compile/ops.h"
#include "ir/windows.h"

namespace stowage::compile {
namespace {

// x and y as (channels of all images, three spatial axes).
struct Pool {
  Pool(const Kernel& k, const Tensor& x_, const Tensor& y_)
      : x(x_),
        y(y_),
        axes(WindowAxesOf(k.attrs(), x.shape(), y.shape())),
        channels(x.shape()[0] * x.shape()[1]) {}

  Expr XAt(const Expr& channel, const Index& at) const {
    Expr sum = channel;
    for (size_t i = 0; i < axes.size(); ++i) {
      sum = Plus({Times(sum, axes[i].in), at[i]});
    }
    return sum;
  }

  const Tensor &x, &y;
  const WindowAxes axes;
  const int64_t channels;
};

// Loops over the windows of a channel; `body` gets its position in y and the place of the
// first element of the window along each axis, perhaps in the padding.
void ForPoolWindows(
    Kernel& k, const Pool& pool, const Expr& channel,
    const std::function<void(const Expr& y_at, const Index& starts)>& body) {
  Index starts;
  const std::function<void(size_t, const Expr&)> nest = [&](size_t a,
                                                            const Expr& y_at) {
    if (a == pool.axes.size()) return body(y_at, starts);
    const WindowAxis& axis = pool.axes[a];
    k.For("o", axis.out, [&](const Expr& o) {
      const Expr start = Times(o, axis.stride);
      starts.push_back(axis.before == 0
                           ? start
                           : StrCat("(", start == "0" ? "" : StrCat(start, " "),
                                    "- ", axis.before, ")"));
      nest(a + 1, Plus({Times(y_at, axis.out), o}));
      starts.pop_back();
    });
  };
  nest(0, channel);
}

// Loops over the elements of a window that are no padding; `body` gets the position in x.
void ForPoolElements(Kernel& k, const Pool& pool, const Expr& channel,
                     const Index& starts,
                     const std::function<void(const Expr& x_at)>& body) {
  Index at;
  const std::function<void(size_t)> nest = [&](size_t a) {
    if (a == pool.axes.size()) return body(pool.XAt(channel, at));
    const WindowAxis& axis = pool.axes[a];
    const int64_t last = axis.Place(axis.out - 1, axis.kernel - 1);
    k.For("t", axis.kernel, [&](const Expr& t) {
      const Expr place = Plus({starts[a], Times(t, axis.dilation)});
      const auto inside = [&] {
        at.push_back(place);
        nest(a + 1);
        at.pop_back();
      };
      if (axis.before == 0 && last < axis.in) return inside();
      k.Block(StrCat("if (", place, " >= 0 && ", place, " < ", axis.in, ")"),
              inside);
    });
  };
  nest(0);
}

// Declares `best`, the position of the first of the largest elements of a window.
void WriteBest(Kernel& k, const Pool& pool, const Expr& channel,
               const Index& starts) {
  k.Line("dim_t best = -1;");
  ForPoolElements(k, pool, channel, starts, [&](const Expr& at) {
    const Expr element = k.Load(pool.x, at);
    k.Block("if (best < 0)", [&] { k.Line("best = ", at, ";"); });
    k.Block("else", [&] {
      k.Line("const real a = ", element, ", b = ", k.Load(pool.x, "best"), ";");
      k.Line("if (a > b || (a != a && b == b)) best = ", at, ";");
    });
  });
}

// Declares `count`, the elements that a window's mean is divided by.
void WriteCount(Kernel& k, const Pool& pool, const Index& starts) {
  const bool counts_padding = k.Int("count_include_pad") == 1;
  std::string product;
  for (size_t a = 0; a < pool.axes.size(); ++a) {
    const WindowAxis& axis = pool.axes[a];
    const int64_t end = counts_padding ? axis.in + axis.after : axis.in;
    const bool cut = (axis.before > 0 && !counts_padding) ||
                     axis.Place(axis.out - 1, axis.kernel - 1) >= end;
    if (!cut) {
      product += StrCat(product.empty() ? "" : " * ", axis.kernel);
      continue;
    }
    const Expr first = k.Fresh("first"), last = k.Fresh("last");
    const Expr start = starts[a];
    k.Line("const dim_t ", first, " = ",
           counts_padding ? start : StrCat(start, " < 0 ? 0 : ", start), ";");
    k.Line("const dim_t ", last, " = ", start, " + ", axis.kernel, " > ", end,
           " ? ", end, " : ", start, " + ", axis.kernel, ";");
    product +=
        StrCat(product.empty() ? "" : " * ", "(", last, " - ", first, ")");
  }
  k.Line("const real count = (real)(", product, ");");
}

}  // namespace

void WriteMaxPool(Kernel& k) {
  const Pool pool(k, k.in(0), k.out(0));
  k.For("channel", pool.channels, [&](const Expr& channel) {
    ForPoolWindows(k, pool, channel, [&](const Expr& at, const Index& starts) {
      WriteBest(k, pool, channel, starts);
      k.Store(pool.y, at, k.Load(pool.x, "best"));
    });
  });
}

void WriteMaxPoolGrad(Kernel& k) {
  const Pool pool(k, k.in(0), k.in(1));
  const Tensor& dx = k.out(0);
  k.For("i", dx.size(), [&](const Expr& i) { k.Store(dx, i, "0"); });
  k.For("channel", pool.channels, [&](const Expr& channel) {
    ForPoolWindows(k, pool, channel, [&](const Expr& at, const Index& starts) {
      WriteBest(k, pool, channel, starts);
      k.Line(dx.name(), "[best] += ", k.Load(pool.y, at), ";");
    });
  });
}

void WriteAvgPool(Kernel& k) {
  const Pool pool(k, k.in(0), k.out(0));
  k.For("channel", pool.channels, [&](const Expr& channel) {
    ForPoolWindows(k, pool, channel, [&](const Expr& at, const Index& starts) {
      k.Line("real sum = 0;");
      ForPoolElements(k, pool, channel, starts, [&](const Expr& x_at) {
        k.Line("sum += ", k.Load(pool.x, x_at), ";");
      });
      WriteCount(k, pool, starts);
      k.Store(pool.y, at, "sum / count");
    });
  });
}

void WriteAvgPoolGrad(Kernel& k) {
  const Pool pool(k, k.out(0), k.in(0));
  const Tensor& dx = k.out(0);
  k.For("i", dx.size(), [&](const Expr& i) { k.Store(dx, i, "0"); });
  k.For("channel", pool.channels, [&](const Expr& channel) {
    ForPoolWindows(k, pool, channel, [&](const Expr& at, const Index& starts) {
      WriteCount(k, pool, starts);
      k.Line("const real share = ", k.Load(pool.y, at), " / count;");
      ForPoolElements(k, pool, channel, starts, [&](const Expr& x_at) {
        k.Line(dx.name(), "[", x_at, "] += share;");
      });
    });
  });
}

// --- resize ---

namespace {

// Declares `low`, the element of x that element `o` of y is made of, and `share`, the
// weight of the one behind it; "" if that is always 0.
struct Blend {
  Expr low, share;
};

Blend WriteBlend(Kernel& k, int64_t in, int64_t out, const Expr& o) {
  if (in == out) return {o, ""};
  const Expr low = k.Fresh("low");
  if (k.Int("mode") == 0) {
    k.Line("const dim_t ", low, " = (dim_t)((int64_t)", o, " * ", in, " / ",
           out, ");");
    return {low, ""};
  }
  const Expr place = k.Fresh("place"), share = k.Fresh("share");
  const Expr scaled =
      k.Int("align_corners") == 1
          ? (out > 1 ? StrCat("(double)", o, " * ", in - 1, " / ", out - 1)
                     : "0")
          : StrCat("((double)", o, " + 0.5) * ", in, " / ", out, " - 0.5");
  k.Line("const double ", place, " = minimum(maximum(", scaled, ", 0), ",
         in - 1, ");");
  k.Line("const dim_t ", low, " = (dim_t)", place, ";");
  k.Line("const real ", share, " = (real)(", place, " - (double)", low, ");");
  return {low, share};
}

// For each element of y: `body` gets its position, and all positions in x with weights.
void ForBlends(Kernel& k, const Tensor& x, const Tensor& y,
               const std::function<void(
                   const Expr& y_at,
                   const std::function<void(
                       const std::function<void(
                           const Expr& x_at, const Expr& weight)>&)>&)>& body) {
  k.ForEach(y.shape(), [&](const Index& at) {
    std::vector<Blend> blends;
    for (int axis = 2; axis < y.shape().rank(); ++axis) {
      blends.push_back(WriteBlend(k, x.shape()[axis], y.shape()[axis],
                                  at[static_cast<size_t>(axis)]));
    }
    body(y.At(at), [&](const auto& use) {
      Index from = {at[0], at[1]};
      const std::function<void(size_t, Expr)> nest = [&](size_t a,
                                                         Expr weight) {
        if (a == blends.size()) {
          return use(x.At(from), weight.empty() ? "1" : weight);
        }
        const Expr low = blends[a].low, share = blends[a].share;
        const std::string times = weight.empty() ? "" : " * ";
        from.push_back(low);
        nest(a + 1, share.empty() ? weight
                                  : StrCat(weight, times, "(1 - ", share, ")"));
        from.pop_back();
        if (share.empty()) return;
        // The last element has none behind it, and then the weight is 0.
        k.Block(StrCat("if (", share, " > 0)"), [&] {
          from.push_back(StrCat("(", low, " + 1)"));
          nest(a + 1, StrCat(weight, times, share));
          from.pop_back();
        });
      };
      nest(0, "");
    });
  });
}

}  // namespace

void WriteResize(Kernel& k) {
  const Tensor &x = k.in(0), &y = k.out(0);
  ForBlends(k, x, y, [&](const Expr& y_at, const auto& for_parts) {
    k.Line("real sum = 0;");
    for_parts([&](const Expr& x_at, const Expr& weight) {
      k.Line("sum += ", weight, " * ", k.Load(x, x_at), ";");
    });
    k.Store(y, y_at, "sum");
  });
}

void WriteResizeGrad(Kernel& k) {
  const Tensor &dx = k.out(0), &dy = k.in(0);
  k.For("i", dx.size(), [&](const Expr& i) { k.Store(dx, i, "0"); });
  ForBlends(k, dx, dy, [&](const Expr& y_at, const auto& for_parts) {
    k.Line("const real d = ", k.Load(dy, y_at), ";");
    for_parts([&](const Expr& x_at, const Expr& weight) {
      k.Line(dx.name(), "[", x_at, "] += ", weight, " * d;");
    });
  });
}

}  // namespace stowage::compile
