// Convolutions as loops over taps: rows of the last spatial axis are innermost, and each tap
// has constant bounds in them, so that padding is never read.

#include "compile/convolution.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "compile/ops.h"
#include "compile/products.h"
#include "ir/windows.h"

namespace stowage::compile {
namespace {

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

// Filters, or channels, that a row is added to at a time.
constexpr int64_t kConvBlock = 4;

// Declares a weight for each array and adds weight * from(t) to arrays[to(t)], for t in
// [0, count).
void AddTap(Kernel& k, std::span<const Expr> arrays, int64_t count,
            const std::function<Expr(size_t)>& weight,
            const std::function<Expr(const Expr& t)>& from,
            const std::function<Expr(const Expr& t)>& to) {
  k.Block("", [&] {
    for (size_t s = 0; s < arrays.size(); ++s) {
      k.Line("const real w", s, " = ", weight(s), ";");
    }
    k.For("t", count, [&](const Expr& t) {
      k.Line("const real a = ", from(t), ";");
      for (size_t s = 0; s < arrays.size(); ++s) {
        k.Line(arrays[s], "[", to(t), "] += w", s, " * a;");
      }
    });
  });
}

int64_t ConvScratch(const Kernel& k, const FlatConv& f, bool is_weight_grad) {
  return HasPatches(k, f) ? PatchesScratch(k, f, is_weight_grad) : 0;
}

FlatConv ConvOf(const Kernel& k) {
  return {k.in(0), k.in(1), k.out(0), k.attrs()};
}
FlatConv TransposeOf(const Kernel& k) {
  return {k.out(0), k.in(1), k.in(0), k.attrs()};
}
FlatConv WeightGradOf(const Kernel& k) {
  return {k.in(0), k.out(0), k.in(1), k.attrs()};
}

}  // namespace

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

int64_t ShiftOf(const ConvDim& dim, const Range& range, int64_t tap) {
  return range.first * dim.stride + tap * dim.dilation - dim.before;
}

Expr FlatConv::XRow(const Expr& n, const Expr& c, const Expr& z,
                    const Expr& row) const {
  return Plus({Times(n, g.groups * g.channels * g.in_size()),
               Times(c, g.in_size()), Times(z, g.dims[1].in * g.dims[2].in),
               Times(row, g.dims[2].in)});
}
Expr FlatConv::YRow(const Expr& n, const Expr& o, const Expr& z,
                    const Expr& row) const {
  return Plus({Times(n, g.groups * g.filters * g.out_size()),
               Times(o, g.out_size()), Times(z, g.dims[1].out * g.dims[2].out),
               Times(row, g.dims[2].out)});
}
Expr FlatConv::WRow(const Expr& o, const Expr& c, const Expr& z,
                    const Expr& row) const {
  return Plus({Times(o, g.channels * g.kernel_size()),
               Times(c, g.kernel_size()),
               Times(z, g.dims[1].kernel * g.dims[2].kernel),
               Times(row, g.dims[2].kernel)});
}

int64_t ScratchOfConv(const Kernel& k) {
  return ConvScratch(k, ConvOf(k), /*is_weight_grad=*/false);
}
int64_t ScratchOfConvTranspose(const Kernel& k) {
  return ConvScratch(k, TransposeOf(k), /*is_weight_grad=*/false);
}
int64_t ScratchOfConvWeightGrad(const Kernel& k) {
  return ConvScratch(k, WeightGradOf(k), /*is_weight_grad=*/true);
}

void WriteConv(Kernel& k) {
  const FlatConv f = ConvOf(k);
  if (HasPatches(k, f)) return WritePatchesConv(k, f);
  const ConvGeometry& g = f.g;
  const ConvDim &depth = g.dims[0], &height = g.dims[1], &width = g.dims[2];
  const auto row_of_y = [&](const Expr& n, const Expr& group, const Expr& o0,
                            int64_t filters, const Expr& z, const Expr& y) {
    const auto filter = [&](size_t s) {
      return Plus({Times(group, g.filters), o0, StrCat(s)});
    };
    const std::vector<Expr> sums = SumArrays(k, filters, width.out);
    k.For("c", g.channels, [&](const Expr& c) {
      ForTaps(k, "tz", depth.kernel, [&](const Expr& tz) {
        const Expr xz = PlaceInX(k, depth, z, tz);
        ForTaps(k, "ty", height.kernel, [&](const Expr& ty) {
          const Expr xy = PlaceInX(k, height, y, ty);
          const Expr in =
              f.XRow(n, Plus({Times(group, g.channels), c}), xz, xy);
          for (int64_t tap = 0; tap < width.kernel; ++tap) {
            const Range range = RangeOfTap(width, tap);
            if (range.first == range.end) continue;
            const Expr shift = StrCat(ShiftOf(width, range, tap));
            AddTap(
                k, sums, range.end - range.first,
                [&](size_t s) {
                  return k.Load(
                      f.w, Plus({f.WRow(filter(s), c, tz, ty), StrCat(tap)}));
                },
                [&](const Expr& t) {
                  return k.Load(f.x, Plus({in, shift, Times(t, width.stride)}));
                },
                [&](const Expr& t) {
                  return Plus({StrCat(range.first), t});
                });
          }
        });
      });
    });
    for (size_t s = 0; s < sums.size(); ++s) {
      k.For("t", width.out, [&](const Expr& t) {
        k.Store(f.y, Plus({f.YRow(n, filter(s), z, y), t}),
                StrCat(sums[s], "[", t, "]"));
      });
    }
  };
  k.For("n", g.images, [&](const Expr& n) {
    k.For("group", g.groups, [&](const Expr& group) {
      ForBlocks(k, "o", g.filters, kConvBlock,
                [&](const Expr& o0, int64_t filters) {
                  k.For("z", depth.out, [&](const Expr& z) {
                    k.For("y", height.out, [&](const Expr& y) {
                      row_of_y(n, group, o0, filters, z, y);
                    });
                  });
                });
    });
  });
}

namespace {

// Declares the place in y of which tap `tap` is at x's place `at`; skips the rest of the loop
// if there is none.
Expr PlaceInY(Kernel& k, const ConvDim& dim, const Expr& at, const Expr& tap) {
  if (dim.in == 1 && dim.out == 1 && dim.kernel == 1) return "0";
  const Expr place = k.Fresh("place");
  k.Line("const dim_t ", place, " = ", at, " + ", dim.before, " - ",
         Times(tap, dim.dilation), ";");
  k.Line("if (", place, " < 0 || ", place, " >= ", dim.out * dim.stride,
         dim.stride == 1 ? "" : StrCat(" || ", place, " % ", dim.stride),
         ") continue;");
  return dim.stride == 1 ? place : StrCat("(", place, " / ", dim.stride, ")");
}

}  // namespace

// x from y: each row of x adds up the rows of y whose windows it is in.
void WriteConvTranspose(Kernel& k) {
  const FlatConv f = TransposeOf(k);
  if (HasPatches(k, f)) return WritePatchesConvTranspose(k, f);
  const ConvGeometry& g = f.g;
  const ConvDim &depth = g.dims[0], &height = g.dims[1], &width = g.dims[2];
  const auto row_of_x = [&](const Expr& n, const Expr& group, const Expr& c0,
                            int64_t channels, const Expr& z, const Expr& y) {
    const std::vector<Expr> sums = SumArrays(k, channels, width.in);
    k.For("o", g.filters, [&](const Expr& of_group) {
      const Expr o = Plus({Times(group, g.filters), of_group});
      ForTaps(k, "tz", depth.kernel, [&](const Expr& tz) {
        const Expr yz = PlaceInY(k, depth, z, tz);
        ForTaps(k, "ty", height.kernel, [&](const Expr& ty) {
          const Expr yy = PlaceInY(k, height, y, ty);
          for (int64_t tap = 0; tap < width.kernel; ++tap) {
            const Range range = RangeOfTap(width, tap);
            if (range.first == range.end) continue;
            AddTap(
                k, sums, range.end - range.first,
                [&](size_t s) {
                  const Expr c = Plus({c0, StrCat(s)});
                  return k.Load(f.w, Plus({f.WRow(o, c, tz, ty), StrCat(tap)}));
                },
                [&](const Expr& t) {
                  return k.Load(f.y, Plus({f.YRow(n, o, yz, yy),
                                           StrCat(range.first), t}));
                },
                [&](const Expr& t) {
                  return Plus({StrCat(ShiftOf(width, range, tap)),
                               Times(t, width.stride)});
                });
          }
        });
      });
    });
    for (size_t s = 0; s < sums.size(); ++s) {
      const Expr c = Plus({Times(group, g.channels), c0, StrCat(s)});
      k.For("t", width.in, [&](const Expr& t) {
        k.Store(f.x, Plus({f.XRow(n, c, z, y), t}),
                StrCat(sums[s], "[", t, "]"));
      });
    }
  };
  k.For("n", g.images, [&](const Expr& n) {
    k.For("group", g.groups, [&](const Expr& group) {
      ForBlocks(k, "c", g.channels, kConvBlock,
                [&](const Expr& c0, int64_t channels) {
                  k.For("z", depth.in, [&](const Expr& z) {
                    k.For("y", height.in, [&](const Expr& y) {
                      row_of_x(n, group, c0, channels, z, y);
                    });
                  });
                });
    });
  });
}

void WriteConvWeightGrad(Kernel& k) {
  const FlatConv f = WeightGradOf(k);
  if (HasPatches(k, f)) return WritePatchesConvWeightGrad(k, f);
  const ConvGeometry& g = f.g;
  const ConvDim &depth = g.dims[0], &height = g.dims[1], &width = g.dims[2];
  const auto weights = [&](const Expr& group, const Expr& o0, int64_t filters,
                           const Expr& c, const Expr& tz, const Expr& ty,
                           int64_t tap) {
    const auto filter = [&](size_t s) {
      return Plus({Times(group, g.filters), o0, StrCat(s)});
    };
    const Range range = RangeOfTap(width, tap);
    const Expr shift = StrCat(ShiftOf(width, range, tap));
    const std::vector<Expr> sums = SumArrays(k, filters, kPartialSums);
    k.For("n", g.images, [&](const Expr& n) {
      ForTaps(k, "z", depth.out, [&](const Expr& z) {
        const Expr xz = PlaceInX(k, depth, z, tz);
        ForTaps(k, "y", height.out, [&](const Expr& y) {
          const Expr xy = PlaceInX(k, height, y, ty);
          const Expr in =
              f.XRow(n, Plus({Times(group, g.channels), c}), xz, xy);
          AddToArrays(
              k, sums, range.end - range.first,
              [&](const Expr& t) {
                return k.Load(f.x, Plus({in, shift, Times(t, width.stride)}));
              },
              [&](size_t s, const Expr& t) {
                return k.Load(f.y, Plus({f.YRow(n, filter(s), z, y),
                                         StrCat(range.first), t}));
              });
        });
      });
    });
    for (size_t s = 0; s < sums.size(); ++s) {
      k.Store(f.w, Plus({f.WRow(filter(s), c, tz, ty), StrCat(tap)}),
              SumOfArray(sums[s]));
    }
  };
  k.For("group", g.groups, [&](const Expr& group) {
    ForBlocks(
        k, "o", g.filters, kConvBlock, [&](const Expr& o0, int64_t filters) {
          k.For("c", g.channels, [&](const Expr& c) {
            k.For("tz", depth.kernel, [&](const Expr& tz) {
              k.For("ty", height.kernel, [&](const Expr& ty) {
                for (int64_t tap = 0; tap < width.kernel; ++tap) {
                  k.Block("",
                          [&] { weights(group, o0, filters, c, tz, ty, tap); });
                }
              });
            });
          });
        });
  });
}

}  // namespace stowage::compile
