#include <algorithm>

#include "base/strings.h"
#include "compile/convolution.h"
#include "compile/products.h"

namespace stowage::compile {
namespace {

// With fewer filters, copying patches takes longer than their matmul.
constexpr int64_t kMinFilters = 4;
// Positions of a band, in vectors, at most.
constexpr int64_t kBandVectors = 8;

// Whether the patches of an image are the image.
bool IsPointwise(const ConvGeometry& g) {
  return std::ranges::all_of(g.dims, [](const ConvDim& dim) {
    return dim.kernel == 1 && dim.stride == 1 && dim.before == 0 &&
           dim.in == dim.out;
  });
}

// Instructions for `positions` columns.
int64_t VectorsOf(int64_t positions, int64_t lanes) {
  int64_t count = 0;
  for (int64_t width = lanes; width >= 4; width /= 2) {
    count += positions / width;
    positions %= width;
  }
  return count + positions;
}

// The rows of y in a band: those of the fewest instructions for each position.
int64_t BandRows(const ConvGeometry& g, int64_t lanes) {
  const int64_t width = g.dims[2].out;
  int64_t best = 1;
  for (int64_t rows = 2;
       rows <= g.dims[1].out && rows * width <= kBandVectors * lanes; ++rows) {
    if (VectorsOf(rows * width, lanes) * best <
        VectorsOf(best * width, lanes) * rows) {
      best = rows;
    }
  }
  return best;
}

int64_t PatchSize(const ConvGeometry& g) {
  return g.channels * g.kernel_size();
}

// Rows of y of one group of one image, and their patches.
struct Band {
  Expr n, group, z, y;
  int64_t rows, positions;
};

// Loops over the bands of an image.
void ForBands(Kernel& k, const ConvGeometry& g, const Expr& n,
              const Expr& group,
              const std::function<void(const Band& band)>& body) {
  k.For("z", g.dims[0].out, [&](const Expr& z) {
    ForBlocks(k, "y", g.dims[1].out, BandRows(g, k.lanes()),
              [&](const Expr& y, int64_t rows) {
                body({n, group, z, y, rows, rows * g.dims[2].out});
              });
  });
}

// The place in x of a tap of output `o`, and the condition that it is padding, or "".
struct PlaceOfTap {
  Expr place, is_padding;
};

PlaceOfTap DeclarePlace(Kernel& k, const ConvDim& dim, const Expr& o,
                        const Expr& tap) {
  const Expr at = Plus({Times(o, dim.stride), Times(tap, dim.dilation)});
  const int64_t last =
      (dim.out - 1) * dim.stride + (dim.kernel - 1) * dim.dilation - dim.before;
  if (dim.before == 0 && last < dim.in) return {at, ""};
  const Expr place = k.Fresh("place");
  k.Line("const dim_t ", place, " = ", at,
         dim.before == 0 ? "" : StrCat(" - ", dim.before), ";");
  return {place, StrCat(place, " < 0 || ", place, " >= ", dim.in)};
}

// Loops over the runs of the patches that are consecutive in y: `on_run` gets the position in
// the patches, that in x, the elements and their distance in x; `on_padding` the position in
// the patches and the elements.
void ForRuns(
    Kernel& k, const FlatConv& f, const Band& band,
    const std::function<void(const Expr& at, const Expr& x_at, int64_t count,
                             int64_t step)>& on_run,
    const std::function<void(const Expr& at, int64_t count)>& on_padding) {
  const ConvGeometry& g = f.g;
  const ConvDim &depth = g.dims[0], &height = g.dims[1], &width = g.dims[2];
  const auto row_of_tap = [&](const Expr& c, const Expr& tz, const Expr& ty,
                              const Expr& r) {
    const PlaceOfTap z = DeclarePlace(k, depth, band.z, tz);
    const PlaceOfTap y = DeclarePlace(k, height, Plus({band.y, r}), ty);
    const Expr patch = Plus({Times(c, g.kernel_size()),
                             Times(tz, height.kernel * width.kernel),
                             Times(ty, width.kernel)});
    const auto at = [&](int64_t tap, int64_t first) {
      return Plus({Times(patch, band.positions),
                   StrCat(tap * band.positions + first), Times(r, width.out)});
    };
    const auto inside = [&] {
      const Expr in = f.XRow(band.n, Plus({Times(band.group, g.channels), c}),
                             z.place, y.place);
      for (int64_t tap = 0; tap < width.kernel; ++tap) {
        const Range range = RangeOfTap(width, tap);
        if (range.first > 0) on_padding(at(tap, 0), range.first);
        if (range.first < range.end) {
          on_run(at(tap, range.first),
                 Plus({in, StrCat(ShiftOf(width, range, tap))}),
                 range.end - range.first, width.stride);
        }
        if (range.end < width.out) {
          on_padding(at(tap, range.end), width.out - range.end);
        }
      }
    };
    if (z.is_padding.empty() && y.is_padding.empty()) return inside();
    k.Block(StrCat("if (", z.is_padding,
                   z.is_padding.empty() || y.is_padding.empty() ? "" : " || ",
                   y.is_padding, ")"),
            [&] {
              for (int64_t tap = 0; tap < width.kernel; ++tap) {
                on_padding(at(tap, 0), width.out);
              }
            });
    k.Block("else", inside);
  };
  k.For("c", g.channels, [&](const Expr& c) {
    k.For("tz", depth.kernel, [&](const Expr& tz) {
      k.For("ty", height.kernel, [&](const Expr& ty) {
        k.For("r", band.rows, [&](const Expr& r) { row_of_tap(c, tz, ty, r); });
      });
    });
  });
}

// Patches in workspace, or the image itself if they are the same.
struct Patches {
  Patches(Kernel& k, const FlatConv& f, const Band& band)
      : conv(f),
        of(band),
        is_image(IsPointwise(f.g)),
        copies(k.Scratch(0, Shape{PatchSize(f.g), band.positions})) {}

  // Element `i` of the patch of position `p`.
  const Tensor& tensor() const { return is_image ? conv.x : copies; }
  Expr At(const Expr& i, const Expr& p) const {
    if (!is_image) return copies.At({i, p});
    return Plus({conv.XRow(of.n, Plus({Times(of.group, conv.g.channels), i}),
                           of.z, of.y),
                 p});
  }

  void Fill(Kernel& k) const {
    if (is_image) return;
    ForRuns(
        k, conv, of,
        [&](const Expr& at, const Expr& x_at, int64_t count, int64_t step) {
          const auto copy = [&](const Expr& t) {
            k.Store(copies, Plus({at, t}),
                    k.Load(conv.x, Plus({x_at, Times(t, step)})));
          };
          step == 1 ? k.ForVectors("t", count, copy) : k.For("t", count, copy);
        },
        [&](const Expr& at, int64_t count) {
          k.For("t", count, [&](const Expr& t) {
            k.Store(copies, Plus({at, t}), "0");
          });
        });
  }

  void AddToImage(Kernel& k) const {
    if (is_image) return;
    ForRuns(
        k, conv, of,
        [&](const Expr& at, const Expr& x_at, int64_t count, int64_t step) {
          const auto add = [&](const Expr& t) {
            const Expr to = Plus({x_at, Times(t, step)});
            k.Store(conv.x, to,
                    StrCat(k.Load(conv.x, to), " + ",
                           k.Load(copies, Plus({at, t}))));
          };
          step == 1 ? k.ForVectors("t", count, add) : k.For("t", count, add);
        },
        [](const Expr&, int64_t) {});
  }

  const FlatConv& conv;
  const Band& of;
  const bool is_image;
  const Tensor copies;
};

void ForGroups(Kernel& k, const ConvGeometry& g,
               const std::function<void(const Band& band)>& body) {
  k.For("n", g.images, [&](const Expr& n) {
    k.For("group", g.groups,
          [&](const Expr& group) { ForBands(k, g, n, group, body); });
  });
}

Expr Filter(const ConvGeometry& g, const Band& band, const Expr& o) {
  return Plus({Times(band.group, g.filters), o});
}

}  // namespace

bool HasPatches(const Kernel& k, const FlatConv& f) {
  return k.lanes() > 1 && f.g.filters >= kMinFilters &&
         f.x.dtype() == DType::kF32 && f.w.dtype() == DType::kF32 &&
         f.y.dtype() == DType::kF32;
}

int64_t PatchesScratch(const Kernel& k, const FlatConv& f,
                       bool is_weight_grad) {
  const int64_t positions = BandRows(f.g, k.lanes()) * f.g.dims[2].out;
  int64_t size = IsPointwise(f.g) ? 0 : PatchSize(f.g) * positions;
  if (is_weight_grad) size += (positions + PatchSize(f.g)) * f.g.filters;
  return size;
}

void WritePatchesConv(Kernel& k, const FlatConv& f) {
  const ConvGeometry& g = f.g;
  const int64_t size = PatchSize(g);
  ForGroups(k, g, [&](const Band& band) {
    const Patches patches(k, f, band);
    patches.Fill(k);
    WriteProduct(
        k,
        {.m = g.filters,
         .n = band.positions,
         .k = size,
         .a =
             [&](const Expr& o, const Expr& i) {
               return k.Load(f.w, Plus({Times(Filter(g, band, o), size), i}));
             },
         .b =
             [&](const Expr& i, const Expr& p) {
               return k.Load(patches.tensor(), patches.At(i, p));
             },
         .is_along_n = true,
         .store =
             [&](const Expr& o, const Expr& p, const Expr& sum) {
               k.Store(f.y,
                       Plus({f.YRow(band.n, Filter(g, band, o), band.z, band.y),
                             p}),
                       sum);
             }});
  });
}

void WritePatchesConvTranspose(Kernel& k, const FlatConv& f) {
  const ConvGeometry& g = f.g;
  const int64_t size = PatchSize(g);
  if (!IsPointwise(g)) k.Clear(f.x);
  ForGroups(k, g, [&](const Band& band) {
    const Patches patches(k, f, band);
    WriteProduct(
        k,
        {.m = size,
         .n = band.positions,
         .k = g.filters,
         .a =
             [&](const Expr& i, const Expr& o) {
               return k.Load(f.w, Plus({Times(Filter(g, band, o), size), i}));
             },
         .b =
             [&](const Expr& o, const Expr& p) {
               return k.Load(
                   f.y,
                   Plus({f.YRow(band.n, Filter(g, band, o), band.z, band.y),
                         p}));
             },
         .is_along_n = true,
         .store =
             [&](const Expr& i, const Expr& p, const Expr& sum) {
               k.Store(patches.tensor(), patches.At(i, p), sum);
             }});
    patches.AddToImage(k);
  });
}

// The gradient is added up transposed, so that vectors are along the filters.
void WritePatchesConvWeightGrad(Kernel& k, const FlatConv& f) {
  const ConvGeometry& g = f.g;
  const int64_t size = PatchSize(g);
  const int64_t positions = BandRows(g, k.lanes()) * g.dims[2].out;
  const int64_t first = IsPointwise(g) ? 0 : size * positions;
  const Tensor y_rows = k.Scratch(first, Shape{positions, g.filters});
  const Tensor w_rows =
      k.Scratch(first + positions * g.filters, Shape{size, g.filters});
  k.For("group", g.groups, [&](const Expr& group) {
    k.Clear(w_rows);
    k.For("n", g.images, [&](const Expr& n) {
      ForBands(k, g, n, group, [&](const Band& band) {
        const Patches patches(k, f, band);
        patches.Fill(k);
        k.For("o", g.filters, [&](const Expr& o) {
          k.For("p", band.positions, [&](const Expr& p) {
            k.Store(
                y_rows, y_rows.At({p, o}),
                k.Load(f.y, Plus({f.YRow(n, Filter(g, band, o), band.z, band.y),
                                  p})));
          });
        });
        WriteProduct(k,
                     {.m = size,
                      .n = g.filters,
                      .k = band.positions,
                      .a =
                          [&](const Expr& i, const Expr& p) {
                            return k.Load(patches.tensor(), patches.At(i, p));
                          },
                      .b =
                          [&](const Expr& p, const Expr& o) {
                            return k.Load(y_rows, y_rows.At({p, o}));
                          },
                      .is_along_n = true,
                      .store =
                          [&](const Expr& i, const Expr& o, const Expr& sum) {
                            const Expr at = w_rows.At({i, o});
                            k.Store(w_rows, at,
                                    StrCat(k.Load(w_rows, at), " + ", sum));
                          }});
      });
    });
    k.For("o", g.filters, [&](const Expr& o) {
      k.For("i", size, [&](const Expr& i) {
        k.Store(f.w, Plus({Times(Plus({Times(group, g.filters), o}), size), i}),
                k.Load(w_rows, w_rows.At({i, o})));
      });
    });
  });
}

}  // namespace stowage::compile
