#include "nn/contrastive.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"

namespace stowage {
namespace {

constexpr std::array<std::pair<Pooling, std::string_view>, 3> kPoolings = {{
    {Pooling::kMean, "mean"},
    {Pooling::kFirst, "cls"},
    {Pooling::kLast, "lasttoken"},
}};

// x (B, K, C) -> (B * (end - begin), C).
Value TextRows(Value x, int64_t begin, int64_t end, SourceLoc loc) {
  return Reshape(Slice(x, 1, begin, end, 1, loc),
                 {x.dim(0) * (end - begin), x.dim(2)}, loc);
}

// Cross-entropy of finding row i * step of `documents` by row i of `queries`.
Value FindingLoss(Value queries, Value documents, int64_t step, SourceLoc loc) {
  const int64_t count = queries.dim(0);
  const Value own = Iota(*queries.builder(), DType::kI32, 0,
                         static_cast<double>(step), count, loc);
  return LinearCrossEntropy(queries, documents, own, LogitChunk(count), {},
                            loc);
}

}  // namespace

std::optional<Pooling> FindPooling(std::string_view name) {
  for (const auto& [pooling, known] : kPoolings) {
    if (known == name) return pooling;
  }
  return std::nullopt;
}

std::string_view PoolingName(Pooling pooling) {
  return kPoolings[static_cast<size_t>(pooling)].second;
}

Status CheckEmbedding(const EmbeddingRules& rules) {
  const auto scale = static_cast<float>(rules.scale);
  if (!std::isfinite(scale) || scale <= 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[embedding] the scale of similarities is ",
                        rules.scale, "; expected a finite number above 0")};
  }
  if (rules.documents >= 1) return {};
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[embedding] a query has ", rules.documents,
                      " documents; expected at least its own")};
}

Value PoolTokens(Value x, Value lengths, Pooling pooling, SourceLoc loc) {
  if (!x.ok() || !lengths.ok()) return {};
  GraphBuilder& g = *x.builder();
  const int64_t texts = x.dim(0), seq = x.dim(1), width = x.dim(2);
  const DType dtype = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  if (pooling == Pooling::kFirst) {
    return Cast(Reshape(Slice(x, 1, 0, 1, 1, loc), {texts, width}, loc), dtype,
                loc);
  }
  // A row of zeros and ones for each text, by which its tokens are multiplied.
  const Value ends = Reshape(lengths, {texts, 1, 1}, loc);
  const Value is_pooled =
      pooling == Pooling::kMean
          ? Less(Iota(g, DType::kI32, 0, 1, seq, loc), ends, loc)
          : Equal(Iota(g, DType::kI32, 1, 1, seq, loc), ends, loc);
  const Value sum =
      MatMul(Cast(is_pooled, x.dtype(), loc), x, false, false, loc);
  const Value pooled = Cast(Reshape(sum, {texts, width}, loc), dtype, loc);
  if (pooling == Pooling::kLast) return pooled;
  return Div(pooled, Cast(Reshape(lengths, {texts, 1}, loc), dtype, loc), loc);
}

Value Normalized(Value x, SourceLoc loc) {
  if (!x.ok()) return {};
  constexpr double kEps = 1e-12;
  const Value squares =
      ReduceSum(Mul(x, x, loc), {x.rank() - 1}, /*keep=*/true, loc);
  // At least eps^2, so that the derivative of the root is finite.
  const Value least = Fill(*x.builder(), kEps * kEps, x.dtype(), {}, loc);
  return Div(x, Sqrt(Maximum(squares, least, loc), loc), loc);
}

Value InfoNce(Value embeddings, const EmbeddingRules& rules, SourceLoc loc) {
  if (!embeddings.ok()) return {};
  const Value compared = rules.similarity == Similarity::kCosine
                             ? Normalized(embeddings, loc)
                             : embeddings;
  const Value queries = TextRows(compared, 0, 1, loc);
  const Value documents = TextRows(compared, 1, 1 + rules.documents, loc);
  const Value loss = FindingLoss(MulScalar(queries, rules.scale, loc),
                                 documents, rules.documents, loc);
  if (!rules.symmetric) return loss;
  const Value own = TextRows(compared, 1, 2, loc);
  const Value reverse =
      FindingLoss(MulScalar(own, rules.scale, loc), queries, 1, loc);
  return MulScalar(Add(loss, reverse, loc), 0.5, loc);
}

}  // namespace stowage
