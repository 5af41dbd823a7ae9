#include "tools/shard_task.h"

#include <algorithm>
#include <iostream>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/batch_analysis.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/batching.h"

namespace stowage::tools {

namespace {

class ShardTask : public Task {
 public:
  ShardTask(std::shared_ptr<const TokenShards> shards, int64_t batch,
            int64_t seq, uint64_t seed, int64_t evaluation_batches,
            const TaskShare& share)
      : Task(share),
        shards_(std::move(shards)),
        part_(PartOfRank(batch, share.ranks, share.rank)),
        batch_(batch),
        seq_(seq),
        seed_(seed),
        evaluation_batches_(evaluation_batches),
        places_(TokenShards::CountPlaces(shards_->train(), seq + 1)),
        windows_(TokenShards::CountWindows(shards_->held_out(), seq + 1)),
        window_(static_cast<size_t>(seq + 1)),
        tokens_(static_cast<size_t>(batch * seq)),
        targets_(tokens_.size()) {}

  Status WriteBatch(Runner& train, int64_t step) override {
    SplitMix64 random(seed_, static_cast<uint64_t>(step));
    // Each rank draws all rows, and reads its own.
    for (int64_t row = 0; row < batch_; ++row) {
      const int64_t place = random.Below(places_);
      const int64_t own = row - part_.first;
      if (own < 0 || own >= part_.count) continue;
      STOWAGE_RETURN_IF_ERROR(
          Read(TokenShards::Place(shards_->train(), seq_ + 1, place), own));
    }
    return Write(train, part_.count);
  }

  int64_t EvaluationBatch(int64_t most) const override {
    return std::min(most, windows_);
  }

  Result<Evaluation> Evaluate(Runner& evaluate, int64_t batch,
                              WorkProgress& progress) override {
    const int64_t batches = std::min(windows_ / batch, evaluation_batches_);
    return MeanLoss(share_, evaluate, batches, progress,
                    [&](int64_t i) -> Status {
                      for (int64_t row = 0; row < batch; ++row) {
                        STOWAGE_RETURN_IF_ERROR(
                            Read(TokenShards::Window(shards_->held_out(),
                                                     seq_ + 1, i * batch + row),
                                 row));
                      }
                      return Write(evaluate, batch);
                    });
  }

  int64_t train_examples() const override {
    return TokenShards::CountWindows(shards_->train(), seq_ + 1);
  }
  int64_t tokens_per_step(size_t /*shape*/) const override {
    return batch_ * seq_;
  }
  std::string_view token_name() const override { return "tok"; }

 private:
  // A window as tokens and, one later, as targets of a row.
  Status Read(const TokenShards::Part& window, int64_t row) {
    STOWAGE_RETURN_IF_ERROR(shards_->Read(window, window_));
    std::copy_n(window_.begin(), seq_, tokens_.begin() + row * seq_);
    std::copy_n(window_.begin() + 1, seq_, targets_.begin() + row * seq_);
    return {};
  }

  Status Write(Runner& runner, int64_t rows) const {
    const auto size = static_cast<size_t>(rows * seq_);
    STOWAGE_RETURN_IF_ERROR(
        runner.Write("tokens", std::span(tokens_).first(size)));
    return runner.Write("targets", std::span(targets_).first(size));
  }

  const std::shared_ptr<const TokenShards> shards_;
  const BatchPart part_;
  const int64_t batch_, seq_;
  const uint64_t seed_;
  const int64_t evaluation_batches_;
  const int64_t places_, windows_;  // of the two parts
  std::vector<int32_t> window_, tokens_, targets_;
};

}  // namespace

Result<std::unique_ptr<Task>> MakeShardTask(
    std::shared_ptr<const TokenShards> shards, int64_t batch, int64_t seq,
    uint64_t seed, int64_t evaluation_batches, const TaskShare& share) {
  const bool trains = TokenShards::CountPlaces(shards->train(), seq + 1) > 0;
  if (!trains || TokenShards::CountWindows(shards->held_out(), seq + 1) == 0) {
    return InvalidArgumentError("[data] ", shards->Describe(), "; no file ",
                                trains ? "that is held out" : "to train on",
                                " has a window of ", seq,
                                " tokens and the next one; give a smaller "
                                "--seq or more tokens");
  }
  if (share.rank == 0) std::cerr << shards->Describe() << std::endl;
  return std::unique_ptr<Task>(std::make_unique<ShardTask>(
      std::move(shards), batch, seq, seed, evaluation_batches, share));
}

}  // namespace stowage::tools
