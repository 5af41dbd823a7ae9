#include "tests/support/thread_ranks.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/result.h"
#include "ir/tensor_type.h"
#include "math/small_floats.h"

namespace stowage::testing {
namespace {

using Bytes = std::span<std::byte>;

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// a becomes a + b, as one element of `dtype`.
void AddTo(DType dtype, std::byte* a, const std::byte* b) {
  const auto store = [&](auto sum) { std::memcpy(a, &sum, sizeof(sum)); };
  switch (dtype) {
    case DType::kF32:
      return store(Load<float>(a) + Load<float>(b));
    case DType::kF64:
      return store(Load<double>(a) + Load<double>(b));
    case DType::kBF16:
      return store(
          math::FloatToBFloat16(math::BFloat16ToFloat(Load<uint16_t>(a)) +
                                math::BFloat16ToFloat(Load<uint16_t>(b))));
    case DType::kF16:
      return store(math::FloatToHalf(math::HalfToFloat(Load<uint16_t>(a)) +
                                     math::HalfToFloat(Load<uint16_t>(b))));
    case DType::kI32:
      return store(Load<int32_t>(a) + Load<int32_t>(b));
    case DType::kI64:
      return store(Load<int64_t>(a) + Load<int64_t>(b));
    default:
      STOWAGE_CHECK(false);
  }
}

}  // namespace

class ThreadRanks::Rank final : public Collectives {
 public:
  Rank(ThreadRanks* all, int rank, int ranks)
      : all_(*all), rank_(rank), ranks_(ranks) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  int64_t sent() const { return sent_; }

  bool AllReduce(DType dtype, Bytes values, Bytes scratch) noexcept override {
    const size_t block = BlockOf(dtype, values.size());
    STOWAGE_CHECK(
        static_cast<int64_t>(scratch.size()) >=
        CollectiveScratch(static_cast<int64_t>(values.size()), ranks_));
    Meet(values);
    const Bytes own = Part(values, block, rank_);
    SumInto(dtype, block, own);
    sent_ += static_cast<int64_t>(values.size() - own.size());
    all_.meeting_.arrive_and_wait();
    CopyOthers(block, values);
    sent_ += static_cast<int64_t>(own.size()) * (ranks_ - 1);
    all_.meeting_.arrive_and_wait();
    return true;
  }

  bool ReduceScatter(DType dtype, std::span<const std::byte> values,
                     Bytes block, Bytes scratch) noexcept override {
    STOWAGE_CHECK(block.size() >= BlockOf(dtype, values.size()));
    const auto together = static_cast<int64_t>(block.size()) * int64_t{ranks_};
    STOWAGE_CHECK(static_cast<int64_t>(scratch.size()) >=
                  CollectiveScratch(together, ranks_));
    // Nobody writes to what is met over here.
    const Bytes mine(const_cast<std::byte*>(values.data()), values.size());
    Meet(mine);
    const size_t part = Part(mine, block.size(), rank_).size();
    SumInto(dtype, block.size(), block.first(part));
    sent_ += static_cast<int64_t>(values.size() - part);
    all_.meeting_.arrive_and_wait();
    return true;
  }

  bool AllGather(std::span<const std::byte> block,
                 Bytes values) noexcept override {
    const Bytes own = Part(values, block.size(), rank_);
    if (!own.empty()) std::memcpy(own.data(), block.data(), own.size());
    Meet(values);
    CopyOthers(block.size(), values);
    sent_ += static_cast<int64_t>(own.size()) * (ranks_ - 1);
    all_.meeting_.arrive_and_wait();
    return true;
  }

 private:
  size_t BlockOf(DType dtype, size_t bytes) const {
    const auto width = static_cast<size_t>(SizeOf(dtype));
    const auto ranks = static_cast<size_t>(ranks_);
    return (bytes / width + ranks - 1) / ranks * width;
  }
  static Bytes Part(Bytes values, size_t block, int rank) {
    const size_t begin =
        std::min(values.size(), block * static_cast<size_t>(rank));
    return values.subspan(begin, std::min(block, values.size() - begin));
  }
  void Meet(Bytes values) {
    all_.values_[static_cast<size_t>(rank_)] = values;
    all_.meeting_.arrive_and_wait();
  }
  // All ranks' values of this rank's block, in their order, to `sum`, which may be
  // where this rank has its own.
  void SumInto(DType dtype, size_t block, Bytes sum) {
    const auto width = static_cast<size_t>(SizeOf(dtype));
    for (size_t i = 0; i < sum.size(); i += width) {
      std::byte total[8];
      for (int r = 0; r < ranks_; ++r) {
        const Bytes theirs =
            Part(all_.values_[static_cast<size_t>(r)], block, rank_);
        if (r == 0) {
          std::memcpy(total, &theirs[i], width);
        } else {
          AddTo(dtype, total, &theirs[i]);
        }
      }
      std::memcpy(&sum[i], total, width);
    }
  }
  void CopyOthers(size_t block, Bytes values) {
    for (int r = 0; r < ranks_; ++r) {
      const Bytes to = Part(values, block, r);
      if (r == rank_ || to.empty()) continue;
      const Bytes from = Part(all_.values_[static_cast<size_t>(r)], block, r);
      std::memcpy(to.data(), from.data(), to.size());
    }
  }

  ThreadRanks& all_;
  const int rank_;
  const int ranks_;
  int64_t sent_ = 0;
};

ThreadRanks::ThreadRanks(int ranks)
    : meeting_(ranks), values_(static_cast<size_t>(ranks)) {
  for (int r = 0; r < ranks; ++r) {
    ranks_.push_back(std::make_unique<Rank>(this, r, ranks));
  }
}

ThreadRanks::~ThreadRanks() = default;

void ThreadRanks::Run(const std::function<void(Collectives&)>& run) {
  std::vector<std::thread> threads;
  for (const auto& rank : ranks_) {
    threads.emplace_back([&run, &rank] { run(*rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

int64_t ThreadRanks::sent_bytes() const { return ranks_.front()->sent(); }

}  // namespace stowage::testing
