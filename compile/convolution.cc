// Convolutions as direct loops: rows of the last spatial axis are innermost, and each tap
// has constant bounds in them, so that padding is never read.

#include <algorithm>
#include <array>

#include "compile/ops.h"
#include "compile/products.h"
#include "ir/windows.h"

namespace stowage::compile {
namespace {

// The places o of an output axis in [first, end) for which tap `i` is not padding.
struct Range {
  int64_t first = 0, end = 0;
};

Range RangeOfTap(const ConvDim& dim, int64_t tap) {
  const int64_t shift =
      tap * dim.dilation - dim.before;  // x = o * stride + shift
  Range range;
  range.first = shift >= 0 ? 0 : (-shift + dim.stride - 1) / dim.stride;
  const int64_t last = dim.in - 1 - shift;
  range.end = last < 0 ? 0 : std::min(dim.out, last / dim.stride + 1);
  range.first = std::min(range.first, range.end);
  return range;
}

// The geometry with x, w and y as flat tensors: (N, C, in), (O, C/g, kernel), (N, O, out).
struct FlatConv {
  FlatConv(const Tensor& x_, const Tensor& w_, const Tensor& y_,
           const Attrs& attrs)
      : x(x_), w(w_), y(y_), g(x.shape(), w.shape(), y.shape(), attrs) {}

  // The position of a row of x, y or w: everything but the last axis.
  Expr XRow(const Expr& n, const Expr& c, const Expr& z,
            const Expr& row) const {
    return Plus({Times(n, g.groups * g.channels * g.in_size()),
                 Times(c, g.in_size()), Times(z, g.dims[1].in * g.dims[2].in),
                 Times(row, g.dims[2].in)});
  }
  Expr YRow(const Expr& n, const Expr& o, const Expr& z,
            const Expr& row) const {
    return Plus(
        {Times(n, g.groups * g.filters * g.out_size()), Times(o, g.out_size()),
         Times(z, g.dims[1].out * g.dims[2].out), Times(row, g.dims[2].out)});
  }
  Expr WRow(const Expr& o, const Expr& c, const Expr& z,
            const Expr& row) const {
    return Plus({Times(o, g.channels * g.kernel_size()),
                 Times(c, g.kernel_size()),
                 Times(z, g.dims[1].kernel * g.dims[2].kernel),
                 Times(row, g.dims[2].kernel)});
  }

  const Tensor &x, &w, &y;
  const ConvGeometry g;
};

// The channel of x that channel c of filter `o` reads.
Expr ChannelOf(const FlatConv& f, const Expr& o, const Expr& c) {
  if (f.g.groups == 1) return c;
  return Plus({Times(f.g.filters == 1 ? o : StrCat(o, " / ", f.g.filters),
                     f.g.channels),
               c});
}

// Declares the place in x of tap `tap` of output `o` along `dim`, and skips the rest of the
// loop where it is padding; or gives an expression that never is.
Expr PlaceInX(Kernel& k, const ConvDim& dim, const Expr& o, const Expr& tap) {
  const Expr at = Plus({Times(o, dim.stride), Times(tap, dim.dilation)});
  const int64_t last =
      (dim.out - 1) * dim.stride + (dim.kernel - 1) * dim.dilation - dim.before;
  if (dim.before == 0 && last < dim.in) return at;
  const Expr place = k.Fresh("place");
  k.Line("const dim_t ", place, " = ", at, dim.before == 0 ? "" : " - ",
         dim.before == 0 ? "" : StrCat(dim.before), ";");
  k.Line("if (", place, " < 0 || ", place, " >= ", dim.in, ") continue;");
  return StrCat(place);
}

// Loops over taps; each is in a loop of its own, so that PlaceInX may continue.
void ForTaps(Kernel& k, std::string_view name, int64_t count,
             const std::function<void(const Expr&)>& body) {
  const Expr tap = k.Fresh(name);
  k.Block(
      StrCat("for (dim_t ", tap, " = 0; ", tap, " < ", count, "; ++", tap, ")"),
      [&] { body(tap); });
}

}  // namespace

void WriteConv(Kernel& k) {
  const FlatConv f(k.in(0), k.in(1), k.out(0), k.attrs());
  const ConvGeometry& g = f.g;
  const auto& [depth, height, width] = g.dims;
  k.For("n", g.images, [&](const Expr& n) {
    k.For("o", g.groups * g.filters, [&](const Expr& o) {
      k.For("z", depth.out, [&](const Expr& z) {
        k.For("y", height.out, [&](const Expr& row) {
          const Expr sums = k.Array("sums", {width.out});
          k.For("c", g.channels, [&](const Expr& c) {
            ForTaps(k, "tz", depth.kernel, [&](const Expr& tz) {
              const Expr xz = PlaceInX(k, depth, z, tz);
              ForTaps(k, "ty", height.kernel, [&](const Expr& ty) {
                const Expr xy = PlaceInX(k, height, row, ty);
                const Expr in = f.XRow(n, ChannelOf(f, o, c), xz, xy);
                for (int64_t tap = 0; tap < width.kernel; ++tap) {
                  const Range range = RangeOfTap(width, tap);
                  if (range.first == range.end) continue;
                  const int64_t shift = range.first * width.stride +
                                        tap * width.dilation - width.before;
                  k.Block("", [&] {
                    k.Line(
                        "const real weight = ",
                        k.Load(f.w, Plus({f.WRow(o, c, tz, ty), StrCat(tap)})),
                        ";");
                    k.For("t", range.end - range.first, [&](const Expr& t) {
                      k.Line(sums, "[", Plus({StrCat(range.first), t}),
                             "] += weight * ",
                             k.Load(f.x, Plus({in, StrCat(shift),
                                               Times(t, width.stride)})),
                             ";");
                    });
                  });
                }
              });
            });
          });
          k.For("t", width.out, [&](const Expr& t) {
            k.Store(f.y, Plus({f.YRow(n, o, z, row), t}),
                    StrCat(sums, "[", t, "]"));
          });
        });
      });
    });
  });
}

// x from y: each row of x adds up the rows of y whose windows it is in.
void WriteConvTranspose(Kernel& k) {
  const FlatConv f(k.out(0), k.in(1), k.in(0), k.attrs());
  const ConvGeometry& g = f.g;
  const auto& [depth, height, width] = g.dims;
  // Declares the output place whose tap `tap` is x's place `at`; continues if there is none.
  const auto place_in_y = [&](const ConvDim& dim, const Expr& at,
                              const Expr& tap) -> Expr {
    if (dim.in == 1 && dim.out == 1 && dim.kernel == 1) return "0";
    const Expr place = k.Fresh("place");
    k.Line("const dim_t ", place, " = ", at, " + ", dim.before, " - ",
           Times(tap, dim.dilation), ";");
    k.Line("if (", place, " < 0 || ", place, " >= ", dim.out * dim.stride,
           dim.stride == 1 ? "" : StrCat(" || ", place, " % ", dim.stride),
           ") continue;");
    return dim.stride == 1 ? place : StrCat("(", place, " / ", dim.stride, ")");
  };
  k.For("n", g.images, [&](const Expr& n) {
    k.For("group", g.groups, [&](const Expr& group) {
      k.For("c", g.channels, [&](const Expr& c) {
        const Expr channel = Plus({Times(group, g.channels), c});
        k.For("z", depth.in, [&](const Expr& z) {
          k.For("y", height.in, [&](const Expr& row) {
            const Expr sums = k.Array("sums", {width.in});
            k.For("o", g.filters, [&](const Expr& of_group) {
              const Expr o = Plus({Times(group, g.filters), of_group});
              ForTaps(k, "tz", depth.kernel, [&](const Expr& tz) {
                const Expr yz = place_in_y(depth, z, tz);
                ForTaps(k, "ty", height.kernel, [&](const Expr& ty) {
                  const Expr yy = place_in_y(height, row, ty);
                  for (int64_t tap = 0; tap < width.kernel; ++tap) {
                    const Range range = RangeOfTap(width, tap);
                    if (range.first == range.end) continue;
                    const int64_t shift = range.first * width.stride +
                                          tap * width.dilation - width.before;
                    k.Block("", [&] {
                      k.Line("const real weight = ",
                             k.Load(f.w,
                                    Plus({f.WRow(o, c, tz, ty), StrCat(tap)})),
                             ";");
                      k.For("t", range.end - range.first, [&](const Expr& t) {
                        k.Line(sums, "[",
                               Plus({StrCat(shift), Times(t, width.stride)}),
                               "] += weight * ",
                               k.Load(f.y, Plus({f.YRow(n, o, yz, yy),
                                                 StrCat(range.first), t})),
                               ";");
                      });
                    });
                  }
                });
              });
            });
            k.For("t", width.in, [&](const Expr& t) {
              k.Store(f.x, Plus({f.XRow(n, channel, z, row), t}),
                      StrCat(sums, "[", t, "]"));
            });
          });
        });
      });
    });
  });
}

void WriteConvWeightGrad(Kernel& k) {
  const FlatConv f(k.in(0), k.out(0), k.in(1), k.attrs());
  const ConvGeometry& g = f.g;
  const auto& [depth, height, width] = g.dims;
  k.For("o", g.groups * g.filters, [&](const Expr& o) {
    k.For("c", g.channels, [&](const Expr& c) {
      k.For("tz", depth.kernel, [&](const Expr& tz) {
        k.For("ty", height.kernel, [&](const Expr& ty) {
          for (int64_t tap = 0; tap < width.kernel; ++tap) {
            const Range range = RangeOfTap(width, tap);
            const int64_t shift = range.first * width.stride +
                                  tap * width.dilation - width.before;
            k.Block("", [&] {
              k.Line("real total = 0;");
              k.For("n", g.images, [&](const Expr& n) {
                ForTaps(k, "z", depth.out, [&](const Expr& z) {
                  const Expr xz = PlaceInX(k, depth, z, tz);
                  ForTaps(k, "y", height.out, [&](const Expr& row) {
                    const Expr xy = PlaceInX(k, height, row, ty);
                    if (range.first == range.end) return;
                    const Expr in = f.XRow(n, ChannelOf(f, o, c), xz, xy);
                    const Expr sum = WriteSum(
                        k, range.end - range.first, [&](const Expr& t) {
                          return StrCat(
                              k.Load(f.x, Plus({in, StrCat(shift),
                                                Times(t, width.stride)})),
                              " * ",
                              k.Load(f.y, Plus({f.YRow(n, o, z, row),
                                                StrCat(range.first), t})));
                        });
                    k.Line("total += ", sum, ";");
                  });
                });
              });
              k.Store(f.w, Plus({f.WRow(o, c, tz, ty), StrCat(tap)}), "total");
            });
          }
        });
      });
    });
  });
}

}  // namespace stowage::compile
