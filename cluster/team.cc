#include "cluster/team.h"

#include <algorithm>
#include <future>
#include <string_view>
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
        return Error{ErrorCode::kRankLost,
                     StrCat("[cluster] a rank was lost while ",
                            Quoted(leaf.name), " was sent to all")};
      }
      STOWAGE_RETURN_IF_ERROR(
          runner.WriteBytes(leaf.name, leaf.type.dtype, bytes));
    }
  }
  return {};
}

namespace {

// A fact as two lines, with line breaks removed.
std::string Written(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) {
    std::string line = value;
    for (char& c : line) {
      if (c == '\n') c = ' ';
    }
    text += StrCat(name, "\n", line, "\n");
  }
  return text;
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

Status Agree(RankCollectives& collectives, const Facts& facts) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                           GatherTexts(collectives, Written(facts)));
  const std::vector<std::string_view> first = Lines(texts[0]);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::vector<std::string_view> other = Lines(texts[rank]);
    for (size_t i = 0; i + 1 < std::min(first.size(), other.size()); i += 2) {
      if (first[i] == other[i] && first[i + 1] == other[i + 1]) continue;
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[cluster] the ranks differ: ", first[i], " of rank ",
                          rank, " is ", other[i + 1], ", of rank 0 ",
                          first[i + 1], "; all must be the same")};
    }
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[cluster] the ranks differ: rank ", rank, " tells ",
               other.size() / 2, " facts of its run, rank 0 ", first.size() / 2,
               "; start the same program everywhere")};
  }
  return {};
}

}  // namespace stowage::cluster
