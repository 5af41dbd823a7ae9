#ifndef STOWAGE_CLUSTER_LIFELINE_H_
#define STOWAGE_CLUSTER_LIFELINE_H_

// Detects failures of ranks. If a message is missing, it may be late, or its sender may be
// dead. MPI does not distinguish these cases and may wait forever. Every rank therefore has
// a TCP connection to rank 0, on its own thread. Each end sends a heartbeat every `beat`.
//
//   failure                  detection
//   a process dies           immediately: the system closes the connection
//   a host or network fails  after `lost_after`: no heartbeat arrives
//   a process is stopped     after `lost_after`: no heartbeat arrives
//   a rank gives up          immediately: it sends a message with the reason
//
// If the whole run is stopped and continued, no failure is detected: a rank whose own clock
// has jumped restarts its timeout. Rank 0 notifies all other ranks of a failure. The
// failure ends the Link::Exchange calls of each rank (MpiLink::GiveUpWhen) and is reported
// to LifelineOptions::on_end.
//
//   Result<std::unique_ptr<Lifeline>> line = Lifeline::Tie(
//       collectives, {.on_end = [](const RankEnd& end) { Print(end.why); }});
//   ...
//   (*line)->Untie();      // when the run is done, or
//   (*line)->GiveUp(kExitUsage, "the file is missing");

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
  bool lost = true;   // Dead, stopped or unreachable. Otherwise it gave up.
  int exit_code = 0;  // If it gave up.
  std::string why;    // For messages.
};

struct LifelineOptions {
  std::chrono::milliseconds beat{1000};
  std::chrono::milliseconds lost_after{20000};
  /// Called once, on the lifeline's thread, for the first early end of another rank.
  std::function<void(const RankEnd&)> on_end = {};
};

class Lifeline {
 public:
  /// Connects all ranks to rank 0. All ranks must call this function. Returns kDevice if
  /// sockets are not available, or if rank 0 is unreachable at all addresses of its host,
  /// which the message lists.
  static Result<std::unique_ptr<Lifeline>> Tie(RankCollectives& collectives,
                                               const LifelineOptions& options);

  /// Closes the connections. The other ranks detect this rank as lost, unless it called
  /// Untie or GiveUp.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// Returns a flag that is true once a rank has ended early.
  const std::atomic<bool>& broken() const { return broken_; }

  /// Notifies the other ranks that this rank ends, with an exit code and a message.
  /// Failures are no longer reported on this rank. On ranks other than 0, waits at most a
  /// few seconds for rank 0 to end, so that rank 0 can print the reason before a launcher
  /// kills all ranks.
  void GiveUp(int exit_code, const std::string& why);

  /// Marks this rank as done, so that its end is not a failure, and waits for the other
  /// ranks. Returns true when all ranks are done, and false if a rank has ended early.
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
  // All ranks on rank 0, and rank 0 on the others.
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<bool> broken_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  // The mutex guards the next three fields, and sending.
  bool is_done_ = false;  // This rank.
  bool gave_up_ = false;
  bool all_done_ = false;   // All ranks.
  int wake_[2] = {-1, -1};  // A pipe. Closing it ends the thread.
  std::thread thread_;
};

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_LIFELINE_H_
