#ifndef STOWAGE_CLUSTER_LIFELINE_H_
#define STOWAGE_CLUSTER_LIFELINE_H_

// Failure detection between ranks. A missing message may be late or its sender dead; MPI
// does not distinguish, and may wait forever. So every rank keeps a TCP connection to rank
// 0, on its own thread:
//
//   a process dies           its system closes the connection: detected immediately
//   a host or network fails, no heartbeat arrives, which each end sends every `beat`:
//   a process is stopped     detected after `lost_after`
//   a rank gives up          it sends a message with the reason
//   the whole run is stopped a rank whose own clock has jumped restarts its timeout
//   and continued
//
// Rank 0 notifies all others. A failure ends each rank's Exchange (MpiLink::GiveUpWhen) and
// is reported to LifelineOptions::on_end.
//
//   Result<std::unique_ptr<Lifeline>> line = Lifeline::Tie(
//       collectives, {.on_end = [](const RankEnd& end) { Print(end.why); }});
//   ...
//   (*line)->Untie();      // all is done; or
//   (*line)->GiveUp(kExitUsage, "the file is not there");

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "cluster/rank_collectives.h"

namespace stowage::cluster {

/// The early end of a rank.
struct RankEnd {
  int rank = 0;
  bool lost = true;   // dead, stopped or unreachable; else it gave up
  int exit_code = 0;  // if it gave up
  std::string why;    // for messages
};

struct LifelineOptions {
  std::chrono::milliseconds beat{1000};
  std::chrono::milliseconds lost_after{20000};
  /// Called once, on the lifeline's thread, for the first early end of another rank.
  std::function<void(const RankEnd&)> on_end = {};
};

class Lifeline {
 public:
  /// Connects all ranks to rank 0; each must call this. Errors, kDevice: no sockets, or rank
  /// 0 is unreachable at all addresses of its host, which are named.
  static Result<std::unique_ptr<Lifeline>> Tie(RankCollectives& collectives,
                                               const LifelineOptions& options);

  /// To the others, this rank is then lost.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// True once a rank has ended early.
  const std::atomic<bool>& broken() const { return broken_; }

  /// Notifies the others that this rank ends, with the exit code and message, and stops
  /// reporting failures here. On ranks other than 0, waits a few seconds at most for rank 0
  /// to end, so that it can print the reason before a launcher kills all ranks.
  void GiveUp(int exit_code, const std::string& why);

  /// Marks this rank as done, so that its end is not a failure. Returns true when all ranks
  /// are done, false if one has ended early.
  bool Untie();

 private:
  struct Peer;
  struct Stranger;
  Lifeline(int rank, int ranks, const LifelineOptions& options);
  Status Open();
  Status Accept(int listener, const std::string& token);
  void Welcome(Stranger stranger, const std::string& token);
  Status Connect(const std::string& invitation);
  void Watch();
  bool Read(Peer& peer);
  bool Take(Peer& peer, const std::string& frame);
  void End(RankEnd end);
  void NoteDone();
  void Send(Peer& peer, const std::string& frame);
  void SendAll(const std::string& frame);

  const int rank_, ranks_;
  const LifelineOptions options_;
  std::vector<std::unique_ptr<Peer>> peers_;  // at rank 0 all, elsewhere rank 0
  std::atomic<bool> broken_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex, as is sending.
  bool is_done_ = false;  // this rank
  bool gave_up_ = false;
  bool all_done_ = false;   // all ranks
  int wake_[2] = {-1, -1};  // a pipe; closing it ends the thread
  std::thread thread_;
};

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_LIFELINE_H_
