#include "compile/products.h"

#include <cctype>
#include <string_view>
#include <vector>

namespace stowage::compile {
void ForBlocks(
    Kernel& k, std::string_view name, int64_t count, int64_t block,
    const std::function<void(const Expr& first, int64_t size)>& body) {
  const int64_t whole = count / block, rest = count % block;
  if (whole > 0) {
    k.For(name, whole, [&](const Expr& i) { body(Times(i, block), block); });
  }
  if (rest > 0) k.Block("", [&] { body(StrCat(whole * block), rest); });
}

std::vector<Expr> SumArrays(Kernel& k, int64_t count, int64_t size) {
  std::vector<Expr> names;
  for (int64_t i = 0; i < count; ++i) {
    names.push_back(k.Array(StrCat("sums", i), {size}));
  }
  return names;
}

void AddToLanes(Kernel& k, std::span<const Expr> arrays, int64_t count,
                const std::function<Expr(const Expr& i)>& shared,
                const std::function<Expr(size_t array, const Expr& i)>& own) {
  const auto add = [&](const Expr& t, const Expr& i) {
    k.Line("const real a = ", shared(i), ";");
    for (size_t s = 0; s < arrays.size(); ++s) {
      k.Line(arrays[s], "[", t, "] += a * ", own(s, i), ";");
    }
  };
  const int64_t whole = count / kLanes, rest = count % kLanes;
  if (whole > 0) {
    k.For("i", whole, [&](const Expr& i) {
      k.For("t", kLanes, [&](const Expr& t) {
        add(t, Plus({Times(i, kLanes), t}));
      });
    });
  }
  if (rest == 0) return;
  k.Block("", [&] {
    k.For("t", rest, [&](const Expr& t) {
      add(t, Plus({StrCat(whole * kLanes), t}));
    });
  });
}

Expr SumOfLanes(const Expr& lanes) {
  const auto lane = [&](int i) { return StrCat(lanes, "[", i, "]"); };
  return StrCat("((", lane(0), " + ", lane(4), ") + (", lane(1), " + ", lane(5),
                ")) + ((", lane(2), " + ", lane(6), ") + (", lane(3), " + ",
                lane(7), "))");
}

namespace {

constexpr int64_t kBlockRows = 4;
constexpr int64_t kBlockColumns = 16;
constexpr int64_t kLaneColumns = 4;

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
void WriteLaneBlocks(Kernel& k, const Product& p) {
  const auto block = [&](const Expr& i, const Expr& j0, int64_t columns) {
    const std::vector<Expr> sums = SumArrays(k, columns, kLanes);
    const auto column = [&](size_t c) { return Plus({j0, StrCat(c)}); };
    AddToLanes(
        k, sums, p.k, [&](const Expr& l) { return p.a(i, l); },
        [&](size_t c, const Expr& l) { return p.b(l, column(c)); });
    for (size_t c = 0; c < sums.size(); ++c) {
      p.store(i, column(c), SumOfLanes(sums[c]));
    }
  };
  if (p.n > p.m) {
    ForBlocks(k, "j", p.n, kLaneColumns, [&](const Expr& j0, int64_t columns) {
      k.For("i", p.m, [&](const Expr& i) { block(i, j0, columns); });
    });
    return;
  }
  k.For("i", p.m, [&](const Expr& i) {
    ForBlocks(k, "j", p.n, kLaneColumns,
              [&](const Expr& j0, int64_t columns) { block(i, j0, columns); });
  });
}

}  // namespace

void WriteProduct(Kernel& k, const Product& product) {
  product.is_along_k ? WriteLaneBlocks(k, product) : WriteRowBlocks(k, product);
}

Expr WriteSum(Kernel& k, int64_t count,
              const std::function<Expr(const Expr& i)>& term) {
  const Expr sum = k.Fresh("sum");
  if (count < 4 * kLanes) {
    k.Line("real ", sum, " = 0;");
    k.For("i", count,
          [&](const Expr& i) { k.Line(sum, " += ", term(i), ";"); });
    return sum;
  }
  const Expr lanes = k.Array("lanes", {kLanes});
  k.For("i", count / kLanes, [&](const Expr& i) {
    k.For("t", kLanes, [&](const Expr& t) {
      k.Line(lanes, "[", t, "] += ", term(Plus({Times(i, kLanes), t})), ";");
    });
  });
  if (count % kLanes != 0) {
    k.For("t", count % kLanes, [&](const Expr& t) {
      k.Line(lanes, "[", t,
             "] += ", term(Plus({StrCat(count / kLanes * kLanes), t})), ";");
    });
  }
  k.Line("const real ", sum, " = ", SumOfLanes(lanes), ";");
  return sum;
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
