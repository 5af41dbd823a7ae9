#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "cluster/link.h"

namespace stowage::cluster {
namespace {

// Where messages are handed over: who receives copies them from where they lie at the
// sender, which waits until they are taken.
class Exchanger {
 public:
  explicit Exchanger(int ranks)
      : ranks_(static_cast<size_t>(ranks)),
        offered_(ranks_ * ranks_),
        gone_(ranks_) {}

  bool Exchange(int rank, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming) {
    std::unique_lock lock(mutex_);
    if (HandOver(rank, outgoing, incoming, &lock)) return true;
    // The caller may free now what others have not taken; they wait for it no more.
    for (const Outgoing& message : outgoing) Of(rank, message.to) = {};
    End(rank);
    return false;
  }

  void Leave(int rank) {
    const std::lock_guard lock(mutex_);
    if (!first_gone_) first_gone_ = rank;
    End(rank);
  }

  // The first that has left, or none.
  std::optional<int> gone() {
    const std::lock_guard lock(mutex_);
    return first_gone_;
  }

 private:
  bool HandOver(int rank, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming,
                std::unique_lock<std::mutex>* lock) {
    for (const Outgoing& message : outgoing) {
      if (message.bytes.empty()) continue;
      Of(rank, message.to) = message.bytes;
    }
    changed_.notify_all();
    for (const Incoming& message : incoming) {
      if (message.bytes.empty()) continue;
      std::span<const std::byte>& offer = Of(message.from, rank);
      changed_.wait(*lock,
                    [&] { return !offer.empty() || IsGone(message.from); });
      if (offer.empty()) return false;
      STOWAGE_CHECK(offer.size() == message.bytes.size());
      std::memcpy(message.bytes.data(), offer.data(), offer.size());
      offer = {};
      changed_.notify_all();
    }
    for (const Outgoing& message : outgoing) {
      const std::span<const std::byte>& offer = Of(rank, message.to);
      changed_.wait(*lock, [&] { return offer.empty() || IsGone(message.to); });
      if (!offer.empty()) return false;
    }
    return true;
  }

  // From now on nobody waits for that rank.
  void End(int rank) {
    gone_[static_cast<size_t>(rank)] = true;
    changed_.notify_all();
  }

  std::span<const std::byte>& Of(int from, int to) {
    return offered_[static_cast<size_t>(from) * ranks_ +
                    static_cast<size_t>(to)];
  }

  bool IsGone(int rank) const { return gone_[static_cast<size_t>(rank)]; }

  const size_t ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // What the mutex guards.
  std::vector<std::span<const std::byte>> offered_;
  std::vector<bool> gone_;  // that have left, or whose exchange has failed
  std::optional<int> first_gone_;
};

class ThreadLink : public Link {
 public:
  ThreadLink(std::shared_ptr<Exchanger> exchanger, int rank, int ranks)
      : exchanger_(std::move(exchanger)), rank_(rank), ranks_(ranks) {}
  ~ThreadLink() override { exchanger_->Leave(rank_); }
  ThreadLink(const ThreadLink&) = delete;
  ThreadLink& operator=(const ThreadLink&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  bool Exchange(std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming) noexcept override {
    for (const Outgoing& message : outgoing) {
      bytes_sent_ += static_cast<int64_t>(message.bytes.size());
    }
    return exchanger_->Exchange(rank_, outgoing, incoming);
  }
  int64_t bytes_sent() const override { return bytes_sent_; }
  std::string failure() const override {
    const std::optional<int> gone = exchanger_->gone();
    return gone ? StrCat("rank ", *gone, " has gone") : "";
  }

 private:
  const std::shared_ptr<Exchanger> exchanger_;
  const int rank_, ranks_;
  int64_t bytes_sent_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Link>> ThreadLinks(int ranks) {
  const auto exchanger = std::make_shared<Exchanger>(ranks);
  std::vector<std::unique_ptr<Link>> links;
  for (int rank = 0; rank < ranks; ++rank) {
    links.push_back(std::make_unique<ThreadLink>(exchanger, rank, ranks));
  }
  return links;
}

}  // namespace stowage::cluster
