#include "autodiff/gradient_buckets.h"

#include <utility>

#include "ir/graph.h"
#include "ir/ops.h"

namespace stowage {
namespace {

int64_t Elements(Value value) { return value.shape().num_elements(); }

int64_t BlockOf(Value value, int64_t ranks) {
  return BlockElements(Elements(value), ranks);
}

// Of what is split by itself.
int64_t GranuleOf(Value value) { return BlockGranule(Elements(value)); }

// As rows, one a rank, with zeros at the end.
Value InRows(Value value, int64_t ranks) {
  const int64_t elements = Elements(value);
  const int64_t block = BlockOf(value, ranks);
  Value flat = Reshape(value, {elements});
  if (ranks * block > elements)
    flat = Pad(flat, {0}, {ranks * block - elements});
  return Reshape(flat, {ranks, block});
}

}  // namespace

GradientBuckets::GradientBuckets(const Ranks& ranks, bool wants_squares,
                                 GraphBuilder* g, Take take)
    : ranks_(ranks),
      wants_squares_(wants_squares),
      g_(*g),
      take_(std::move(take)) {}

void GradientBuckets::Add(const std::string& param, Value gradient) {
  if (!gradient.ok()) return;
  const Waiting added = {param, gradient};
  if (BytesIn(gradient) >= ranks_.bucket_bytes) {
    Leave({added});
    return;
  }
  std::vector<Waiting>& waiting = waiting_[gradient.dtype()];
  waiting.push_back(added);
  Bytes bytes = 0;
  for (const Waiting& w : waiting) bytes += BytesIn(w.gradient);
  if (bytes >= ranks_.bucket_bytes) Leave(std::exchange(waiting, {}));
}

void GradientBuckets::Flush() {
  for (auto& [dtype, waiting] : waiting_) {
    if (!waiting.empty()) Leave(std::exchange(waiting, {}));
  }
  TakeSums(std::exchange(under_way_, {}));
}

void GradientBuckets::Leave(std::vector<Waiting> waiting) {
  g_.SetOrigin(Phase::kBackward, waiting.back().param);
  const Value sum = sums_whole() ? AllReduce(Joined(waiting), ranks_.ranks)
                                 : Scattered(waiting);
  if (waiting.size() > 1) g_.SetRole(sum, Role::kGradient);
  // The one before has had the time in which these gradients were made.
  TakeSums(std::exchange(under_way_, {std::move(waiting), sum}));
}

Value GradientBuckets::Joined(const std::vector<Waiting>& waiting) const {
  if (waiting.size() == 1) return waiting[0].gradient;
  std::vector<Value> parts;
  for (const Waiting& w : waiting) {
    parts.push_back(Reshape(w.gradient, {Elements(w.gradient)}));
  }
  return Concat(parts, 0);
}

Value GradientBuckets::Scattered(const std::vector<Waiting>& waiting) const {
  if (waiting.size() == 1) {
    const Value gradient = waiting[0].gradient;
    return ReduceScatter(gradient, ranks_.ranks, GranuleOf(gradient));
  }
  std::vector<Value> rows;
  for (const Waiting& w : waiting) {
    rows.push_back(InRows(w.gradient, ranks_.ranks));
  }
  return ReduceScatter(Concat(rows, 1), ranks_.ranks);
}

Bytes GradientBuckets::BytesIn(Value gradient) const {
  if (sums_whole()) return gradient.type().bytes();
  return ranks_.ranks * BlockOf(gradient, ranks_.ranks) *
         SizeOf(gradient.dtype());
}

void GradientBuckets::TakeSums(const Bucket& bucket) {
  if (bucket.gradients.size() == 1) {
    TakeSum(bucket.gradients[0].param, bucket.sum);
    return;
  }
  int64_t begin = 0;
  for (const Waiting& w : bucket.gradients) {
    g_.SetOrigin(Phase::kBackward, w.param);
    const int64_t count =
        sums_whole() ? Elements(w.gradient) : BlockOf(w.gradient, ranks_.ranks);
    const Value part = Slice(bucket.sum, 0, begin, begin + count);
    TakeSum(w.param, sums_whole() ? Reshape(part, w.gradient.shape()) : part);
    begin += count;
  }
}

void GradientBuckets::TakeSum(const std::string& param, Value sum) {
  g_.SetOrigin(Phase::kBackward, param);
  Summed summed = {param, sum};
  if (wants_squares_) {
    summed.squares = Cast(SumSquares(sum), DType::kF32);
    if (ranks_.shard != Sharding::kNone) {
      summed.sum = OwnBlock(sum, ranks_.ranks, GranuleOf(sum));
    }
  }
  g_.SetRole(summed.sum, Role::kGradient);
  take_(summed);
}

}  // namespace stowage
