#ifndef STOWAGE_CLUSTER_TEAM_H_
#define STOWAGE_CLUSTER_TEAM_H_

// This process as one of the ranks that a launcher has started: joined by MPI, and by
// a lifeline, from here to the end of the run.
//
//   STOWAGE_ASSIGN_OR_RETURN(const Launch launch, ReadLaunch());
//   if (launch.ranks > 1) {
//     STOWAGE_ASSIGN_OR_RETURN(team, Team::Join(launch, {.on_end = ...}));
//     STOWAGE_RETURN_IF_ERROR(Agree(team->collectives(), facts));
//     STOWAGE_RETURN_IF_ERROR(ShareValues(team->collectives(), runner));
//     ...
//     team->Part([] { _exit(0); });
//   }

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/launch.h"
#include "cluster/lifeline.h"
#include "cluster/link.h"
#include "cluster/rank_collectives.h"
#include "runtime/session.h"

namespace stowage::cluster {

class Team {
 public:
  /// Before the process has any other thread. Errors: those of MpiLink::Open and
  /// Lifeline::Tie.
  static Result<std::unique_ptr<Team>> Join(const Launch& launch,
                                            const LifelineOptions& options);

  RankCollectives& collectives() { return *collectives_; }
  Lifeline& lifeline() { return *lifeline_; }
  int rank() const { return link_->rank(); }
  int ranks() const { return link_->ranks(); }
  /// To other ranks, by this one, so far.
  int64_t bytes_sent() const { return link_->bytes_sent(); }

  /// Waits until all ranks come here, and ends MPI. False where one has ended before
  /// its time. MPI waits for all of them again, and for ever where one dies just then:
  /// where it has not ended after `patience`, `on_late` is called on another thread, and
  /// may end the process, of which nothing is left to do.
  bool Part(const std::function<void()>& on_late,
            std::chrono::milliseconds patience = std::chrono::seconds(10));

 private:
  Team() = default;

  std::unique_ptr<MpiLink> link_;
  std::unique_ptr<RankCollectives> collectives_;
  std::unique_ptr<Lifeline> lifeline_;
};

/// Gives all ranks the params and states that rank 0's runner has. Errors: those of
/// Runner::ReadBytes and WriteBytes; kRankLost when a rank was lost.
Status ShareValues(RankCollectives& collectives, Runner& runner);

// What all ranks of a run must have in common, compared before the first step: ranks
// with another program, other options or other data would not fail, they would learn
// something else.
//
//   Status agreed = Agree(collectives, {{"program", version}, {"data", digest}});

/// What is compared, by name, and what it is here, for people.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Compares the facts of all ranks, each of which must call this. Error
/// kInvalidArgument, the same at all of them, naming the first rank that differs from
/// rank 0, what of it does, and what both have; kRankLost when a rank was lost.
Status Agree(RankCollectives& collectives, const Facts& facts);

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_TEAM_H_
