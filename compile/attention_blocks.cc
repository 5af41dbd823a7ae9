#include <vector>

#include "base/strings.h"
#include "compile/attention.h"
#include "compile/products.h"

namespace stowage::compile {
namespace {

constexpr int64_t kBlockQueries = 4;

// Workspace: k, and in the gradient v, of a head as (D, S); and of each query of a block the
// numbers of all keys. Rows have the keys up to a whole number of column blocks.
struct Blocks {
  Blocks(const Kernel& kernel, bool is_grad)
      : a(kernel, is_grad ? kAttentionGradOperands : kAttentionOperands),
        row((a.keys + ColumnBlock(kernel) - 1) / ColumnBlock(kernel) *
            ColumnBlock(kernel)),
        key(kernel.Scratch(0, Shape{a.width, row})),
        value(kernel.Scratch(a.width * row, Shape{a.width, row})),
        scores(Rows(kernel, is_grad ? 2 * a.width : a.width)),
        d_scores(Rows(kernel, 2 * a.width + kBlockQueries)),
        slopes(Rows(kernel, 2 * a.width + 2 * kBlockQueries)),
        size(row * (is_grad
                        ? 2 * a.width + kBlockQueries * (a.softcap > 0 ? 3 : 2)
                        : a.width + kBlockQueries)) {}

  Tensor Rows(const Kernel& kernel, int64_t rows_before) const {
    return kernel.Scratch(rows_before * row, Shape{kBlockQueries, row});
  }

  const Heads a;
  const int64_t row;
  const Tensor key, value;
  const Tensor scores, d_scores;  // later weights, and gradients of scores
  const Tensor slopes;            // of the softcap
  const int64_t size;
};

// A block of queries [t, t + count) of head `h` of example `b`, which reads head `g` of k
// and v. The keys that any of its queries reads are [low, high), those of query r are
// [low_r, high_r); `first` is the column block of low.
struct QueryBlock {
  Expr b, g, h, t;
  int64_t count;

  Expr Query(const Expr& r) const { return Plus({t, r}); }
};

// to[d][s] = from[b][s][g][d].
void Transpose(Kernel& k, const Heads& a, const Tensor& from, const Tensor& to,
               const Expr& b, const Expr& g) {
  k.For("s", a.keys, [&](const Expr& s) {
    k.For("d", a.width, [&](const Expr& d) {
      k.Store(to, to.At({d, s}), k.Load(from, from.At({b, s, g, d})));
    });
  });
}

// Loops over the blocks of queries; `of_head` is called for each head of k and v before.
void ForQueryBlocks(
    Kernel& k, const Heads& a,
    const std::function<void(const Expr& b, const Expr& g)>& of_head,
    const std::function<void(const QueryBlock&)>& body) {
  k.For("b", a.batch, [&](const Expr& b) {
    k.For("g", a.heads / a.group, [&](const Expr& g) {
      of_head(b, g);
      k.For("of_group", a.group, [&](const Expr& of_group) {
        const Expr h = Plus({Times(g, a.group), of_group});
        ForBlocks(k, "t", a.queries, kBlockQueries,
                  [&](const Expr& t, int64_t count) {
                    body({b, g, h, t, count});
                  });
      });
    });
  });
}

// Declares the ranges of keys of the block and of its queries.
void WriteKeyRanges(Kernel& k, const Heads& a, const QueryBlock& block) {
  k.Line("dim_t low = ", a.keys, ", high = 0;");
  for (int64_t r = 0; r < block.count; ++r) {
    const Expr low = StrCat("low_", r), high = StrCat("high_", r);
    WriteKeyRange(k, a, block.b, block.Query(StrCat(r)), low, high);
    k.Line("if (", low, " < ", high, " && ", low, " < low) low = ", low, ";");
    k.Line("if (", low, " < ", high, " && ", high, " > high) high = ", high,
           ";");
  }
  k.Line("const dim_t first = low - low % ", ColumnBlock(k), ";");
}

// rows[r][s] = the sum over d of of_query(r, d) * keys[d][s].
void WriteRows(Kernel& k, const Blocks& blocks, const QueryBlock& block,
               const Tensor& queries, const Tensor& keys, const Tensor& rows,
               double scale) {
  WriteProductColumns(
      k,
      {.m = block.count,
       .n = blocks.row,
       .k = blocks.a.width,
       .a =
           [&](const Expr& r, const Expr& d) {
             return k.Load(queries,
                           queries.At({block.b, block.Query(r), block.h, d}));
           },
       .b =
           [&](const Expr& d, const Expr& s) {
             return k.Load(keys, keys.At({d, s}));
           },
       .is_along_n = true,
       .store =
           [&](const Expr& r, const Expr& s, const Expr& sum) {
             k.Store(rows, rows.At({r, s}),
                     scale == 1 ? sum : StrCat(sum, " * ", k.Real(scale)));
           }},
      "first", "high");
}

// Loops over the vectors of the block's columns; elements outside [low, high) are not used.
void ForColumnVectors(Kernel& k,
                      const std::function<void(const Expr& s)>& body) {
  const Expr s = k.Fresh("s");
  k.Block(StrCat("for (dim_t ", s, " = first; ", s, " < high; ", s,
                 " += ", k.lanes(), ")"),
          [&] { STOWAGE_CHECK(k.InVectors(k.lanes(), s, [&] { body(s); })); });
}

// The scores of the block: those of keys that a query does not read are -infinity.
void WriteScores(Kernel& k, const Blocks& blocks, const QueryBlock& block,
                 bool is_grad) {
  const Heads& a = blocks.a;
  const Tensor& scores = blocks.scores;
  WriteRows(k, blocks, block, k.in(0), blocks.key, scores,
            k.attrs().Float("scale"));
  for (int64_t each = 0; each < block.count; ++each) {
    const Expr r = StrCat(each);
    const auto at = [&](const Expr& s) { return scores.At({r, s}); };
    if (a.softcap > 0 || a.optionals.bias != 0) {
      // Also those that only other queries read, whose slopes are multiplied by 0.
      k.Block("for (dim_t s = low; s < high; ++s)", [&] {
        Expr score = k.Load(scores, at("s"));
        if (a.softcap > 0) {
          const Expr cap = k.Real(a.softcap);
          k.Line("const real capped = tanh@(", score, " / ", cap, ");");
          if (is_grad) {
            k.Store(blocks.slopes, blocks.slopes.At({r, "s"}),
                    "1 - capped * capped");
          }
          score = StrCat("capped * ", cap);
        }
        if (a.optionals.bias != 0) {
          const Tensor& bias = k.in(a.optionals.bias);
          score += StrCat(" + ", k.Load(bias, a.BiasAt(bias, block.b, block.h,
                                                       block.Query(r), "s")));
        }
        k.Store(scores, at("s"), score);
      });
    }
    // The last column block ends behind `high`.
    k.Line("for (dim_t s = first; s < low_", r, " && s < high; ++s) ",
           scores.name(), "[", at("s"), "] = -INFINITY;");
    k.Line("for (dim_t s = high_", r, " > first ? high_", r,
           " : first; s < high || s % ", ColumnBlock(k), " != 0; ++s) ",
           scores.name(), "[", at("s"), "] = -INFINITY;");
  }
}

// Loops over the block's keys [low, high), for Product::for_k.
std::function<void(const std::function<void(const Expr&)>&)> OverKeys(
    Kernel& k) {
  return [&k](const std::function<void(const Expr&)>& body) {
    k.Block("for (dim_t s = low; s < high; ++s)", [&] { body("s"); });
  };
}

}  // namespace

int64_t BlocksScratch(const Kernel& k, bool is_grad) {
  return Blocks(k, is_grad).size;
}

void WriteAttentionBlocks(Kernel& k) {
  const Blocks blocks(k, /*is_grad=*/false);
  const Heads& a = blocks.a;
  const Tensor &v = k.in(2), &o = k.out(0), &scores = blocks.scores;
  const auto of_head = [&](const Expr& b, const Expr& g) {
    Transpose(k, a, k.in(1), blocks.key, b, g);
  };
  ForQueryBlocks(k, a, of_head, [&](const QueryBlock& block) {
    WriteKeyRanges(k, a, block);
    WriteScores(k, blocks, block, /*is_grad=*/false);
    k.Line("real shares[", block.count, "];");
    for (int64_t each = 0; each < block.count; ++each) {
      const Expr r = StrCat(each);
      const auto at = [&](const Expr& s) { return scores.At({r, s}); };
      k.Block("", [&] {
        const Expr lanes = StrCat("_x", k.lanes(), "("),
                   type = StrCat("f32x", k.lanes());
        k.Line(type, " largest_lanes = splat", lanes, "-INFINITY);");
        ForColumnVectors(k, [&](const Expr& s) {
          k.Line("largest_lanes = maximum@(largest_lanes, ",
                 k.Load(scores, at(s)), ");");
        });
        k.Line("const real largest = largest", lanes, "largest_lanes);");
        // All weights of a query without keys are 0.
        k.Line("const real base = isinf(largest) ? 0 : largest;");
        k.Line(type, " total_lanes = {0};");
        ForColumnVectors(k, [&](const Expr& s) {
          k.Line("const real p = exp@(", k.Load(scores, at(s)), " - base);");
          k.Store(scores, at(s), "p");
          k.Line("total_lanes += p;");
        });
        k.Line("const real total = sum", lanes, "total_lanes);");
        k.Store(k.out(1), a.Row(block.b, block.h, block.Query(r)),
                "largest + log@(total)");
        k.Line("shares[", r, "] = total > 0 ? 1 / total : 0;");
      });
    }
    WriteProduct(k, {.m = block.count,
                     .n = a.width,
                     .a =
                         [&](const Expr& r, const Expr& s) {
                           return k.Load(scores, scores.At({r, s}));
                         },
                     .b =
                         [&](const Expr& s, const Expr& d) {
                           return k.Load(v, v.At({block.b, s, block.g, d}));
                         },
                     .for_k = OverKeys(k),
                     .is_along_n = true,
                     .store =
                         [&](const Expr& r, const Expr& d, const Expr& sum) {
                           k.Store(o,
                                   o.At({block.b, block.Query(r), block.h, d}),
                                   StrCat(sum, " * shares[", r, "]"));
                         }});
  });
}

void WriteAttentionGradBlocks(Kernel& k) {
  const Blocks blocks(k, /*is_grad=*/true);
  const Heads& a = blocks.a;
  const Tensor &q = k.in(0), &key = k.in(1), &o = k.in(3), &d_o = k.in(5);
  const Tensor &weights = blocks.scores, &d_scores = blocks.d_scores;
  const QkvGrad grad = QkvGrad::Of(k);
  for (size_t r = 0; r < k.num_outputs(); ++r) k.Clear(k.out(r));
  const auto of_head = [&](const Expr& b, const Expr& g) {
    Transpose(k, a, key, blocks.key, b, g);
    Transpose(k, a, k.in(2), blocks.value, b, g);
  };
  ForQueryBlocks(k, a, of_head, [&](const QueryBlock& block) {
    WriteKeyRanges(k, a, block);
    WriteScores(k, blocks, block, /*is_grad=*/true);
    WriteRows(k, blocks, block, d_o, blocks.value, d_scores, 1);
    for (int64_t each = 0; each < block.count; ++each) {
      const Expr r = StrCat(each), t = block.Query(r);
      k.Block("", [&] {
        const Expr delta = WriteSum(k, a.width, [&](const Expr& d) {
          return StrCat(k.Load(o, o.At({block.b, t, block.h, d})), " * ",
                        k.Load(d_o, d_o.At({block.b, t, block.h, d})));
        });
        // All weights of a query without keys are 0.
        k.Line("const real log_sum_exp = ",
               k.Load(k.in(4), a.Row(block.b, block.h, t)), ";");
        k.Line("const real lse = isinf(log_sum_exp) ? INFINITY : log_sum_exp;");
        ForColumnVectors(k, [&](const Expr& s) {
          const Expr at = weights.At({r, s});
          k.Line("const real p = exp@(", k.Load(weights, at), " - lse);");
          k.Store(weights, at, "p");
          k.Store(
              d_scores, at,
              StrCat("p * (", k.Load(d_scores, at), " - ", delta, ") * ",
                     k.Real(k.attrs().Float("scale")),
                     a.softcap > 0 ? StrCat(" * ", k.Load(blocks.slopes, at))
                                   : ""));
        });
      });
    }
    // dq of the block, and its part of dk and dv.
    WriteProduct(k, {.m = block.count,
                     .n = a.width,
                     .a =
                         [&](const Expr& r, const Expr& s) {
                           return k.Load(d_scores, d_scores.At({r, s}));
                         },
                     .b =
                         [&](const Expr& s, const Expr& d) {
                           return k.Load(key, key.At({block.b, s, block.g, d}));
                         },
                     .for_k = OverKeys(k),
                     .is_along_n = true,
                     .store =
                         [&](const Expr& r, const Expr& d, const Expr& sum) {
                           k.Store(
                               grad.q,
                               grad.q.At({block.b, block.Query(r), block.h, d}),
                               sum);
                         }});
    const auto add = [&](const Tensor& to, const Tensor& rows,
                         const Tensor& queries) {
      k.ForVectors("d", a.width, [&](const Expr& d) {
        const Expr at = to.At({block.b, "s", block.g, d});
        Expr sum = k.Load(to, at);
        for (int64_t each = 0; each < block.count; ++each) {
          const Expr r = StrCat(each);
          const Expr t = block.Query(r);
          sum += StrCat(" + ", rows.name(), "[", rows.At({r, "s"}), "] * ",
                        k.Load(queries, queries.At({block.b, t, block.h, d})));
        }
        k.Store(to, at, sum);
      });
    };
    k.Block("for (dim_t s = low; s < high; ++s)", [&] {
      add(grad.v, weights, d_o);
      add(grad.k, d_scores, q);
    });
  });
}

}  // namespace stowage::compile
