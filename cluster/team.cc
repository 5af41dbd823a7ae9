#include "cluster/team.h"

#include <future>
#include <span>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "ir/graph.h"

namespace stowage::cluster {

Result<std::unique_ptr<Team>> Team::Join(const Launch& launch,
                                         const LifelineOptions& options) {
  std::unique_ptr<Team> team(new Team);
  STOWAGE_ASSIGN_OR_RETURN(team->link_, MpiLink::Open(launch));
  team->collectives_ = std::make_unique<RankCollectives>(*team->link_);
  STOWAGE_ASSIGN_OR_RETURN(team->lifeline_,
                           Lifeline::Tie(*team->collectives_, options));
  team->link_->GiveUpWhen(&team->lifeline_->broken());
  return team;
}

bool Team::Part(const std::function<void()>& on_late,
                std::chrono::milliseconds patience) {
  if (!lifeline_->Untie()) return false;
  std::promise<void> ended;
  std::thread alarm([&, end = ended.get_future()] {
    if (end.wait_for(patience) != std::future_status::ready) on_late();
  });
  link_->Finish();
  ended.set_value();
  alarm.join();
  return true;
}

Status ShareValues(RankCollectives& collectives, Runner& runner) {
  const Graph& graph = runner.graph();
  std::vector<std::byte> bytes;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : graph.Leaves(role)) {
      const ValueInfo& leaf = graph.value(id);
      bytes.resize(static_cast<size_t>(leaf.type.bytes()));
      STOWAGE_RETURN_IF_ERROR(
          runner.ReadBytes(leaf.name, leaf.type.dtype, bytes));
      if (!collectives.Broadcast(bytes)) {
        return Error{ErrorCode::kDevice,
                     StrCat("[cluster] a rank was lost while ",
                            Quoted(leaf.name), " was sent to all")};
      }
      STOWAGE_RETURN_IF_ERROR(
          runner.WriteBytes(leaf.name, leaf.type.dtype, bytes));
    }
  }
  return {};
}

}  // namespace stowage::cluster
