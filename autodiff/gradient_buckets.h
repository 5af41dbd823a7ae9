#ifndef STOWAGE_AUTODIFF_GRADIENT_BUCKETS_H_
#define STOWAGE_AUTODIFF_GRADIENT_BUCKETS_H_

// The way of gradients from rank to rank.
//
// What a rank has made of the gradients is summed over all ranks as it comes. A large
// one leaves at once, and in place; small ones wait in a bucket, are joined when it is
// full, and leave together. So a gradient dies as its bucket leaves. What is done with a
// bucket's sums is done as the next one leaves: the bucket travels while the gradients
// of the next are made (ir/exchanges.h).
//
//   GradientBuckets buckets(ranks, /*wants_squares=*/false, &g, [&](Summed s) { ... });
//   buckets.Add("w", w, gradient);  // for each
//   buckets.Flush();
//
// With sharding, a rank gets its own block of a sum alone. Where the sum of all its
// squares is wanted, too, which does not follow in the same bits from sums over blocks,
// every rank gets the sum, and keeps its block.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "autodiff/ranks.h"
#include "base/bytes.h"
#include "ir/builder.h"
#include "ir/dtype.h"

namespace stowage {

/// A gradient's sum over ranks: this rank's block of it, if gradients are split.
struct Summed {
  std::string param;
  Value sum;
  Value squares = {};  // f32 scalar, of all of it; where it is wanted
};

class GradientBuckets {
 public:
  using Take = std::function<void(const Summed&)>;

  /// The builder must outlive this. `take` emits what is done with a sum; it is called
  /// by Add and Flush, in an order that follows from the calls of Add.
  GradientBuckets(const Ranks& ranks, bool wants_squares, GraphBuilder* g,
                  Take take);

  void Add(const std::string& param, Value gradient);
  /// Lets go what still waits, and takes all sums.
  void Flush();

 private:
  struct Waiting {
    std::string param;
    Value gradient;
  };

  // What has left, and has not been taken.
  struct Bucket {
    std::vector<Waiting> gradients = {};
    Value sum = {};
  };

  bool sums_whole() const {
    return ranks_.shard == Sharding::kNone || wants_squares_;
  }
  void Leave(std::vector<Waiting> waiting);
  Value Joined(const std::vector<Waiting>& waiting) const;
  Value Scattered(const std::vector<Waiting>& waiting) const;
  // What it takes of a bucket: where it is split, blocks of each rank.
  Bytes BytesIn(Value gradient) const;
  void TakeSums(const Bucket& bucket);
  void TakeSum(const std::string& param, Value sum);

  const Ranks ranks_;
  const bool wants_squares_;
  GraphBuilder& g_;
  const Take take_;
  std::map<DType, std::vector<Waiting>> waiting_;  // less than a bucket of each
  Bucket under_way_;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_GRADIENT_BUCKETS_H_
