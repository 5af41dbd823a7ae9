#include "compile/products.h"

#include <algorithm>

namespace stowage::compile {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kBlockRows = 4;
constexpr int64_t kBlockColumns = 8;
constexpr int64_t kLaneColumns = 4;

// Calls body(first, size) in loops over [0, count) in steps of `block`, and once more for
// what is left.
void ForBlocks(
    Kernel& k, std::string_view name, int64_t count, int64_t block,
    const std::function<void(const Expr& first, int64_t size)>& body) {
  const int64_t whole = count / block, rest = count % block;
  if (whole > 0) {
    k.For(name, whole, [&](const Expr& i) { body(Times(i, block), block); });
  }
  if (rest > 0) k.Block("", [&] { body(StrCat(whole * block), rest); });
}

void WriteRowBlocks(Kernel& k, const Product& p) {
  ForBlocks(k, "i", p.m, kBlockRows, [&](const Expr& i0, int64_t rows) {
    ForBlocks(k, "j", p.n, kBlockColumns, [&](const Expr& j0, int64_t columns) {
      const Expr sums = k.Array("sums", {rows, columns});
      k.For("l", p.k, [&](const Expr& l) {
        k.For("r", rows, [&](const Expr& r) {
          const Expr a = k.Fresh("a");
          k.Line("const real ", a, " = ", p.a(Plus({i0, r}), l), ";");
          k.For("c", columns, [&](const Expr& c) {
            k.Line(sums, "[", r, "][", c, "] += ", a, " * ",
                   p.b(l, Plus({j0, c})), ";");
          });
        });
      });
      k.For("r", rows, [&](const Expr& r) {
        k.For("c", columns, [&](const Expr& c) {
          p.store(Plus({i0, r}), Plus({j0, c}),
                  StrCat(sums, "[", r, "][", c, "]"));
        });
      });
    });
  });
}

Expr SumOfLanes(const Expr& lanes) {
  const auto lane = [&](int i) { return StrCat(lanes, "[", i, "]"); };
  return StrCat("((", lane(0), " + ", lane(4), ") + (", lane(1), " + ", lane(5),
                ")) + ((", lane(2), " + ", lane(6), ") + (", lane(3), " + ",
                lane(7), "))");
}

void WriteLaneBlocks(Kernel& k, const Product& p) {
  k.For("i", p.m, [&](const Expr& i) {
    ForBlocks(k, "j", p.n, kLaneColumns, [&](const Expr& j0, int64_t columns) {
      const Expr sums = k.Array("sums", {columns, kLanes});
      const auto add = [&](const Expr& c, const Expr& lane, const Expr& l) {
        k.Line(sums, "[", c, "][", lane, "] += ", p.a(i, l), " * ",
               p.b(l, Plus({j0, c})), ";");
      };
      if (p.k >= kLanes) {
        k.For("l", p.k / kLanes, [&](const Expr& l) {
          k.For("c", columns, [&](const Expr& c) {
            k.For("t", kLanes, [&](const Expr& t) {
              add(c, t, Plus({Times(l, kLanes), t}));
            });
          });
        });
      }
      if (p.k % kLanes != 0) {
        k.For("c", columns, [&](const Expr& c) {
          k.For("t", p.k % kLanes, [&](const Expr& t) {
            add(c, t, Plus({StrCat(p.k / kLanes * kLanes), t}));
          });
        });
      }
      k.For("c", columns, [&](const Expr& c) {
        p.store(i, Plus({j0, c}), SumOfLanes(StrCat(sums, "[", c, "]")));
      });
    });
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

}  // namespace stowage::compile
