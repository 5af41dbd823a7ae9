#include "cluster/link.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "base/shared_library.h"
#include "base/strings.h"

// The MPI functions used, each found by name.
#define STOWAGE_MPI(F)   \
  F(Init_thread)         \
  F(Comm_dup)            \
  F(Comm_rank)           \
  F(Comm_size)           \
  F(Comm_set_errhandler) \
  F(Isend)               \
  F(Irecv)               \
  F(Test)                \
  F(Finalize)

namespace stowage::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSuccess = 0;
constexpr int kThreadSerialized = 2;
constexpr int kTag = 17;
// The maximum size of a part of a message, which MPI counts by int.
constexpr size_t kMaxBytes = size_t{1} << 30;
// A wait first spins, then yields, then sleeps.
constexpr auto kEager = std::chrono::microseconds(50);
constexpr auto kYielding = std::chrono::milliseconds(5);
constexpr auto kPause = std::chrono::microseconds(50);

// MPI's functions for one binary interface: OpenMPI's handles are pointers, MPICH's are
// integers (mpi.h of both).
template <typename Handle>
struct Mpi {
  int (*Init_thread)(int*, char***, int, int*);
  int (*Comm_dup)(Handle, Handle*);
  int (*Comm_rank)(Handle, int*);
  int (*Comm_size)(Handle, int*);
  int (*Comm_set_errhandler)(Handle, Handle);
  int (*Isend)(const void*, int, Handle, int, int, Handle, Handle*);
  int (*Irecv)(void*, int, Handle, int, int, Handle, Handle*);
  int (*Test)(Handle*, int*, void*);
  int (*Finalize)();

  Handle world, byte, errors_return;
  void* ignore_status;
};

template <typename Handle>
Result<Mpi<Handle>> Functions(const SharedLibrary& library) {
  Mpi<Handle> mpi;
#define STOWAGE_LOOK_UP(name)                                                  \
  mpi.name = reinterpret_cast<decltype(mpi.name)>(library.Find("MPI_" #name)); \
  if (mpi.name == nullptr) {                                                   \
    return DeviceError("[cluster] ", library.path,                             \
                       " is no MPI: it lacks MPI_" #name);                     \
  }
  STOWAGE_MPI(STOWAGE_LOOK_UP)
#undef STOWAGE_LOOK_UP
  if constexpr (std::is_pointer_v<Handle>) {
    mpi.world = library.Find("ompi_mpi_comm_world");
    mpi.byte = library.Find("ompi_mpi_byte");
    mpi.errors_return = library.Find("ompi_mpi_errors_return");
    if (mpi.byte == nullptr || mpi.errors_return == nullptr) {
      return DeviceError("[cluster] ", library.path,
                         " is an OpenMPI without ompi_mpi_byte");
    }
    mpi.ignore_status = nullptr;
  } else {
    mpi.world = 0x44000000;
    mpi.byte = 0x4c00010d;
    mpi.errors_return = 0x54000001;
    mpi.ignore_status = reinterpret_cast<void*>(1);
  }
  return mpi;
}

template <typename Handle>
class MpiLinkOf : public MpiLink {
 public:
  static Result<std::unique_ptr<MpiLink>> Open(const SharedLibrary& library,
                                               const Launch& launch) {
    STOWAGE_ASSIGN_OR_RETURN(const Mpi<Handle> mpi, Functions<Handle>(library));
    int level = 0;
    if (mpi.Init_thread(nullptr, nullptr, kThreadSerialized, &level) !=
        kSuccess) {
      return DeviceError("[cluster] ", library.path, " cannot be initialized");
    }
    if (level < kThreadSerialized) {
      return DeviceError("[cluster] ", library.path,
                         " may be used by one thread alone: its "
                         "level of threads is ",
                         level, ", expected ", kThreadSerialized,
                         " (MPI_THREAD_SERIALIZED) or more; choose another in "
                         "STOWAGE_MPI");
    }
    auto link = std::make_unique<MpiLinkOf>(mpi);
    if (mpi.Comm_dup(mpi.world, &link->ours_) != kSuccess ||
        mpi.Comm_set_errhandler(link->ours_, mpi.errors_return) != kSuccess ||
        mpi.Comm_rank(link->ours_, &link->rank_) != kSuccess ||
        mpi.Comm_size(link->ours_, &link->ranks_) != kSuccess) {
      return DeviceError("[cluster] ", library.path, " makes no communicator");
    }
    if (link->rank_ != launch.rank || link->ranks_ != launch.ranks) {
      return DeviceError(
          "[cluster] ",

          launch.launcher, " has started rank ", launch.rank, " of ",
          launch.ranks, ", and ", library.path, " sees rank ", link->rank_,
          " of ", link->ranks_,
          "; it belongs to another launcher: name the launcher's own library "
          "in STOWAGE_MPI, or start the ranks otherwise (srun --mpi=pmix)");
    }
    const auto requests = 2 * static_cast<size_t>(link->ranks_);
    link->requests_.reserve(requests);
    return std::unique_ptr<MpiLink>(std::move(link));
  }

  explicit MpiLinkOf(const Mpi<Handle>& mpi) : mpi_(mpi) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  int64_t bytes_sent() const override { return bytes_sent_; }
  std::string failure() const override { return failure_ ? failure_ : ""; }
  void GiveUpWhen(const std::atomic<bool>* lost) override { lost_ = lost; }
  void Finish() override { mpi_.Finalize(); }

  bool Exchange(std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming) noexcept override {
    size_t longest = 0;
    for (const Outgoing& message : outgoing) {
      longest = std::max(longest, message.bytes.size());
      bytes_sent_ += static_cast<int64_t>(message.bytes.size());
    }
    for (const Incoming& message : incoming) {
      longest = std::max(longest, message.bytes.size());
    }
    for (size_t begin = 0; begin < longest; begin += kMaxBytes) {
      requests_.clear();
      for (const Incoming& message : incoming) {
        const int size = SizeFrom(message.bytes.size(), begin);
        if (size == 0) continue;
        requests_.emplace_back();
        if (mpi_.Irecv(message.bytes.data() + begin, size, mpi_.byte,
                       message.from, kTag, ours_,
                       &requests_.back()) != kSuccess) {
          return Lose("MPI_Irecv failed");
        }
      }
      for (const Outgoing& message : outgoing) {
        const int size = SizeFrom(message.bytes.size(), begin);
        if (size == 0) continue;
        requests_.emplace_back();
        if (mpi_.Isend(message.bytes.data() + begin, size, mpi_.byte,
                       message.to, kTag, ours_,
                       &requests_.back()) != kSuccess) {
          return Lose("MPI_Isend failed");
        }
      }
      if (!WaitForAll()) return false;
    }
    return true;
  }

 private:
  // The size of the part of a message that begins there.
  static int SizeFrom(size_t bytes, size_t begin) {
    return begin >= bytes
               ? 0
               : static_cast<int>(std::min(bytes - begin, kMaxBytes));
  }

  bool Lose(const char* why) {
    failure_ = why;
    return false;
  }

  bool WaitForAll() {
    const Clock::time_point start = Clock::now();
    while (true) {
      for (size_t i = 0; i < requests_.size();) {
        int done = 0;
        if (mpi_.Test(&requests_[i], &done, mpi_.ignore_status) != kSuccess) {
          return Lose("MPI_Test failed");
        }
        if (done == 0) {
          ++i;
          continue;
        }
        requests_[i] = requests_.back();
        requests_.pop_back();
      }
      if (requests_.empty()) return true;
      if (lost_ != nullptr && lost_->load(std::memory_order_relaxed)) {
        return false;
      }
      const Clock::duration waited = Clock::now() - start;
      if (waited > kYielding) {
        std::this_thread::sleep_for(kPause);
      } else if (waited > kEager) {
        sched_yield();
      }
    }
  }

  const Mpi<Handle> mpi_;
  Handle ours_ = {};
  int rank_ = 0, ranks_ = 0;
  std::vector<Handle> requests_;
  int64_t bytes_sent_ = 0;
  const std::atomic<bool>* lost_ = nullptr;
  const char* failure_ = nullptr;
};

}  // namespace

std::vector<std::string> MpiPlaces(const Launch& launch) {
  if (const char* const chosen = std::getenv("STOWAGE_MPI")) return {chosen};
  std::vector<std::string> places = {"libmpi.so.40", "libmpi.so.12",
                                     "libmpich.so.12"};
  if (!launch.by_openmpi) {
    std::rotate(places.begin(), places.begin() + 1, places.end());
  }
  return places;
}

Result<std::unique_ptr<MpiLink>> MpiLink::Open(const Launch& launch) {
  STOWAGE_ASSIGN_OR_RETURN(
      const SharedLibrary library,
      OpenSharedLibrary(
          StrCat("MPI, by which ", launch.launcher, " has started ",
                 launch.ranks, " ranks,"),
          MpiPlaces(launch),
          {.room = "cluster",
           .cure = "install OpenMPI (libopenmpi3) or MPICH (libmpich12) on "
                   "every host, or name the library in STOWAGE_MPI",
           .global = true}));
  const bool is_openmpi = library.Find("ompi_mpi_comm_world") != nullptr;
  return is_openmpi ? MpiLinkOf<void*>::Open(library, launch)
                    : MpiLinkOf<int>::Open(library, launch);
}

namespace {

// The state that threads share: a receiver copies a message from the sender's memory, and the
// sender waits for that.
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
    // The caller may now free messages that were not received; their receivers stop waiting.
    for (const Outgoing& message : outgoing) Of(rank, message.to) = {};
    End(rank);
    return false;
  }

  void Leave(int rank) {
    const std::lock_guard lock(mutex_);
    if (!first_gone_) first_gone_ = rank;
    End(rank);
  }

  // The first rank that has left, if any.
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

  // Other ranks stop waiting for this one.
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
  // Guarded by the mutex.
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
