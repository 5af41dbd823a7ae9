#include "compile/products.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/strings.h"

namespace stowage::compile {
void ForBlocks(
    Kernel& k, std::string_view name, int64_t count, int64_t block,
    const std::function<void(const Expr& first, int64_t size)>& body) {
  const int64_t whole = count / block, rest = count % block;
  const auto blocks = [&] {
    k.For(name, whole, [&](const Expr& i) { body(Times(i, block), block); });
  };
  // Without a loop, a scope of its own.
  if (whole > 0) whole == 1 && rest > 0 ? k.Block("", blocks) : blocks();
  if (rest > 0) k.Block("", [&] { body(StrCat(whole * block), rest); });
}

std::vector<Expr> SumArrays(Kernel& k, int64_t count, int64_t size) {
  std::vector<Expr> names;
  for (int64_t i = 0; i < count; ++i) {
    names.push_back(k.Array(StrCat("sums", i), {size}));
  }
  return names;
}

void AddToArrays(Kernel& k, std::span<const Expr> arrays, int64_t count,
                 const std::function<Expr(const Expr& i)>& shared,
                 const std::function<Expr(size_t array, const Expr& i)>& own) {
  const auto add = [&](const Expr& t, const Expr& i) {
    k.Line("const real a = ", shared(i), ";");
    for (size_t s = 0; s < arrays.size(); ++s) {
      k.Line(arrays[s], "[", t, "] += a * ", own(s, i), ";");
    }
  };
  const int64_t whole = count / kPartialSums, rest = count % kPartialSums;
  if (whole > 0) {
    k.For("i", whole, [&](const Expr& i) {
      k.For("t", kPartialSums, [&](const Expr& t) {
        add(t, Plus({Times(i, kPartialSums), t}));
      });
    });
  }
  if (rest == 0) return;
  k.Block("", [&] {
    k.For("t", rest, [&](const Expr& t) {
      add(t, Plus({StrCat(whole * kPartialSums), t}));
    });
  });
}

namespace {

constexpr int64_t kBlockRows = 4;
constexpr int64_t kBlockColumns = 16;
constexpr int64_t kSumColumns = 4;

// One loop over the columns of a block serves all of its rows, so that compilers keep each
// row's sums in vector registers.
void WriteRowBlocks(Kernel& k, const Product& p) {
  ForBlocks(k, "i", p.m, kBlockRows, [&](const Expr& i0, int64_t rows) {
    ForBlocks(k, "j", p.n, kBlockColumns, [&](const Expr& j0, int64_t columns) {
      const std::vector<Expr> sums = SumArrays(k, rows, columns);
      const auto row = [&](size_t r) { return Plus({i0, StrCat(r)}); };
      const auto add = [&](const Expr& l) {
        std::vector<Expr> a;
        for (size_t r = 0; r < sums.size(); ++r) {
          a.push_back(k.Fresh("a"));
          k.Line("const real ", a[r], " = ", p.a(row(r), l), ";");
        }
        k.For("c", columns, [&](const Expr& c) {
          const Expr b = k.Fresh("b");
          k.Line("const real ", b, " = ", p.b(l, Plus({j0, c})), ";");
          for (size_t r = 0; r < sums.size(); ++r) {
            k.Line(sums[r], "[", c, "] += ", a[r], " * ", b, ";");
          }
        });
      };
      p.for_k ? p.for_k(add) : k.For("l", p.k, add);
      for (size_t r = 0; r < sums.size(); ++r) {
        k.For("c", columns, [&](const Expr& c) {
          p.store(row(r), Plus({j0, c}), StrCat(sums[r], "[", c, "]"));
        });
      }
    });
  });
}

// The inner loop reads the factor of which less is read again.
void WritePartialSums(Kernel& k, const Product& p) {
  const auto block = [&](const Expr& i, const Expr& j0, int64_t columns) {
    const std::vector<Expr> sums = SumArrays(k, columns, kPartialSums);
    const auto column = [&](size_t c) { return Plus({j0, StrCat(c)}); };
    AddToArrays(
        k, sums, p.k, [&](const Expr& l) { return p.a(i, l); },
        [&](size_t c, const Expr& l) { return p.b(l, column(c)); });
    for (size_t c = 0; c < sums.size(); ++c) {
      p.store(i, column(c), SumOfArray(sums[c]));
    }
  };
  if (p.n > p.m) {
    ForBlocks(k, "j", p.n, kSumColumns, [&](const Expr& j0, int64_t columns) {
      k.For("i", p.m, [&](const Expr& i) { block(i, j0, columns); });
    });
    return;
  }
  k.For("i", p.m, [&](const Expr& i) {
    ForBlocks(k, "j", p.n, kSumColumns,
              [&](const Expr& j0, int64_t columns) { block(i, j0, columns); });
  });
}

}  // namespace

// --- In vectors ---

namespace {

constexpr int64_t kVectorColumns = 2;  // vectors of a block
constexpr int64_t kSumsAtOnce = 4;     // sums that sums_x4 adds up

// Runs of columns of a block: of vectors, then of single elements.
using Runs = std::vector<int64_t>;

// The widest runs first.
Runs RunsOf(int64_t columns, int64_t lanes) {
  Runs runs;
  for (int64_t width = lanes; width > 0;
       width = width > 4 ? width / 2 : width - 3) {
    for (; columns >= width; columns -= width) runs.push_back(width);
  }
  return runs;
}

std::string TypeOfRun(int64_t width) {
  return width == 1 ? "real" : StrCat("f32x", width);
}

// Stores the sums of row `i` and the columns from j + first on, one by one if store has no form
// for vectors.
void StoreRun(Kernel& k, const Product& p, const Expr& i, const Expr& j,
              int64_t first, int64_t width, const Expr& sums) {
  const Expr column = Plus({j, StrCat(first)});
  if (width == 1) return p.store(i, column, sums);
  if (k.InVectors(width, j, [&] { p.store(i, column, sums); })) return;
  k.Block("", [&] {
    const Expr run = k.Array("run", {width});
    k.Line("store_x", width, "(", run, ", ", sums, ");");
    k.For("c", width, [&](const Expr& c) {
      p.store(i, Plus({column, c}), StrCat(run, "[", c, "]"));
    });
  });
}

// The sums of `rows` rows and of the columns in `runs` from `j`, a variable, on.
void WriteBlock(Kernel& k, const Product& p, const Expr& i0, int64_t rows,
                const Expr& j, const Runs& runs) {
  const auto row = [&](int64_t r) { return Plus({i0, StrCat(r)}); };
  const auto sum = [&](int64_t r, size_t c) { return StrCat("s", r, "_", c); };
  int64_t columns = 0;
  for (size_t c = 0; c < runs.size(); ++c) {
    columns += runs[c];
    for (int64_t r = 0; r < rows; ++r) {
      k.Line(TypeOfRun(runs[c]), " ", sum(r, c),
             runs[c] == 1 ? " = 0;" : " = {0};");
    }
  }
  const auto load = [&](const Expr& l, int64_t first) {
    return p.panel == nullptr
               ? p.b(l, Plus({j, StrCat(first)}))
               : k.Load(*p.panel, Plus({Times(l, columns), StrCat(first)}));
  };
  const auto add = [&](const Expr& l) {
    int64_t first = 0;
    for (size_t c = 0; c < runs.size(); ++c) {
      const auto declare = [&] {
        k.Line("const real b", c, " = ", load(l, first), ";");
      };
      if (runs[c] == 1) {
        declare();
      } else {
        STOWAGE_CHECK(
            k.InVectors(runs[c], p.panel == nullptr ? j : "", declare));
      }
      first += runs[c];
    }
    if (rows > 1) k.Line("LOADED();");
    for (int64_t r = 0; r < rows; ++r) {
      k.Line("const real a", r, " = ", p.a(row(r), l), ";");
      for (size_t c = 0; c < runs.size(); ++c) {
        k.Line(sum(r, c), " += a", r, " * b", c, ";");
      }
    }
  };
  p.for_k ? p.for_k(add) : k.For("l", p.k, add);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t first = 0;
    for (size_t c = 0; c < runs.size(); ++c) {
      StoreRun(k, p, row(r), j, first, runs[c], sum(r, c));
      first += runs[c];
    }
  }
}

// Calls body(j, count) for blocks of columns, where `j` is a variable.
void ForColumns(Kernel& k, int64_t n, int64_t block,
                const std::function<void(const Expr& j, int64_t count)>& body) {
  const int64_t whole = n / block * block;
  const auto loop = [&](int64_t first, int64_t end, int64_t step) {
    if (first == end) return;
    const Expr j = k.Fresh("j");
    k.Block(StrCat("for (dim_t ", j, " = ", first, "; ", j, " < ", end, "; ", j,
                   " += ", step, ")"),
            [&] { body(j, step); });
  };
  loop(0, whole, block);
  loop(whole, n, n - whole);
}

// Copies columns of b into the panel, as rows of `columns` elements.
void FillPanel(Kernel& k, const Product& p, const Expr& j, int64_t columns) {
  k.For("c", columns, [&](const Expr& c) {
    k.For("l", p.k, [&](const Expr& l) {
      k.Store(*p.panel, Plus({Times(l, columns), c}), p.b(l, Plus({j, c})));
    });
  });
}

void WriteVectorBlocks(Kernel& k, const Product& p) {
  const auto widest =
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(p.n)));
  const int64_t lanes = std::min(k.lanes(), widest);
  ForColumns(
      k, p.n, kVectorColumns * lanes, [&](const Expr& j, int64_t columns) {
        if (p.panel != nullptr) FillPanel(k, p, j, columns);
        const Runs runs = RunsOf(columns, lanes);
        ForBlocks(k, "i", p.m, kBlockRows, [&](const Expr& i, int64_t rows) {
          WriteBlock(k, p, i, rows, j, runs);
        });
      });
}

// Sums in lanes along k, of two rows and four columns.
void WriteVectorSums(Kernel& k, const Product& p) {
  const int64_t width = k.LanesFor(p.k), whole = p.k / width * width;
  const auto block = [&](const Expr& i0, int64_t rows, const Expr& j,
                         int64_t columns) {
    const auto row = [&](int64_t r) { return Plus({i0, StrCat(r)}); };
    const auto sum = [&](int64_t r, int64_t c) {
      return StrCat("s", r, "_", c);
    };
    const auto each = [&](const auto& body) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) body(r, c);
      }
    };
    each([&](int64_t r, int64_t c) {
      k.Line("f32x", width, " ", sum(r, c), " = {0};");
    });
    const auto add = [&](const Expr& l, const auto& to) {
      for (int64_t c = 0; c < columns; ++c) {
        k.Line("const real b", c, " = ", p.b(l, Plus({j, StrCat(c)})), ";");
      }
      for (int64_t r = 0; r < rows; ++r) {
        k.Line("const real a", r, " = ", p.a(row(r), l), ";");
        for (int64_t c = 0; c < columns; ++c) {
          k.Line(to(r, c), " += a", r, " * b", c, ";");
        }
      }
    };
    const Expr l = k.Fresh("l");
    k.Block(
        StrCat("for (dim_t ", l, " = 0; ", l, " < ", whole, "; ", l,
               " += ", width, ")"),
        [&] { STOWAGE_CHECK(k.InVectors(width, l, [&] { add(l, sum); })); });
    const auto total = [&](int64_t r) { return StrCat("t", r); };
    for (int64_t r = 0; r < rows; ++r) {
      k.Line("real ", total(r), "[", kSumsAtOnce, "];");
      if (columns == kSumsAtOnce) {
        k.Line("store_x4(", total(r), ", sums_x", width, "(", sum(r, 0), ", ",
               sum(r, 1), ", ", sum(r, 2), ", ", sum(r, 3), "));");
        continue;
      }
      for (int64_t c = 0; c < columns; ++c) {
        k.Line(total(r), "[", c, "] = sum_x", width, "(", sum(r, c), ");");
      }
    }
    if (whole < p.k) {
      k.For("rest", p.k - whole, [&](const Expr& rest) {
        add(Plus({StrCat(whole), rest}), [&](int64_t r, int64_t c) {
          return StrCat(total(r), "[", c, "]");
        });
      });
    }
    for (int64_t r = 0; r < rows; ++r) {
      if (columns == kSumsAtOnce && k.InVectors(kSumsAtOnce, j, [&] {
            p.store(row(r), j, StrCat("load_x4(", total(r), ")"));
          })) {
        continue;
      }
      k.For("c", columns, [&](const Expr& c) {
        p.store(row(r), Plus({j, c}), StrCat(total(r), "[", c, "]"));
      });
    }
  };
  ForColumns(k, p.n, kSumsAtOnce, [&](const Expr& j, int64_t columns) {
    ForBlocks(k, "i", p.m, 2,
              [&](const Expr& i, int64_t rows) { block(i, rows, j, columns); });
  });
}

}  // namespace

int64_t ColumnBlock(const Kernel& k) { return kVectorColumns * k.lanes(); }

void WriteProductColumns(Kernel& k, const Product& p, const Expr& first,
                         const Expr& end) {
  const Expr j = k.Fresh("j");
  k.Block(StrCat("for (dim_t ", j, " = ", first, "; ", j, " < ", end, "; ", j,
                 " += ", ColumnBlock(k), ")"),
          [&] {
            WriteBlock(k, p, "0", p.m, j, RunsOf(ColumnBlock(k), k.lanes()));
          });
}

int64_t PanelSize(const Kernel& kernel, int64_t m, int64_t n, int64_t k,
                  bool is_along_k) {
  // Copying takes about as long for an element as adding the lanes of an eighth of a sum.
  const bool adds_along_k = is_along_k && k >= 8 * m && kernel.LanesFor(k) > 1;
  if (kernel.lanes() == 1 || n < 4 || adds_along_k) return 0;
  return k * std::min(n, kVectorColumns * kernel.lanes());
}

void WriteProduct(Kernel& k, const Product& p) {
  const bool has_vectors = k.lanes() > 1 && p.is_f32;
  if (has_vectors && p.n >= 4 && (p.is_along_n || p.panel != nullptr)) {
    return WriteVectorBlocks(k, p);
  }
  if (has_vectors && p.is_along_k && k.LanesFor(p.k) > 1) {
    return WriteVectorSums(k, p);
  }
  p.is_along_k ? WritePartialSums(k, p) : WriteRowBlocks(k, p);
}

int64_t WeightRows::width() const {
  const int64_t row = w_.shape()[1];
  return is_quantized() ? *NumbersOf(static_cast<WeightType>(blocks_), row)
                        : row;
}

void WeightRows::Decode(Kernel& k, const Expr& row, const Expr& to) const {
  const BlockFormat& format = FormatOf(static_cast<WeightType>(blocks_));
  std::string name = "decode_";
  for (const char c : format.name) {
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  k.For("block", width() / format.numbers, [&](const Expr& block) {
    k.Line(name, "@(",
           Plus({w_.name(), Times(row, w_.shape()[1]),
                 Times(block, format.bytes)}),
           ", ", Plus({to, Times(block, format.numbers)}), ");");
  });
}

}  // namespace stowage::compile
