#include "gpu/step_graphs.h"

#include <utility>

#include "base/strings.h"

namespace stowage::gpu {

StepGraphs::~StepGraphs() { Destroy(sections_); }

void StepGraphs::Destroy(const std::vector<Section>& sections) {
  for (const Section& section : sections) {
    device_.Destroy(section.graph);
    for (const auto& body : section.bodies) Destroy(body);
  }
}

Status StepGraphs::BeginGraph() {
  const Status begun = device_.BeginCapture(stream_);
  is_capturing_ = begun.ok();
  return begun;
}

Status StepGraphs::EndGraph() {
  is_capturing_ = false;
  STOWAGE_ASSIGN_OR_RETURN(const DeviceGraph graph,
                           device_.EndCapture(stream_));
  into_->push_back({graph});
  return {};
}

Status StepGraphs::Capture(const std::function<Status()>& give) {
  STOWAGE_RETURN_IF_ERROR(BeginGraph());
  const Status given = give();
  const Status ended = is_capturing_ ? EndGraph() : Status();
  return given.ok() ? ended : given;
}

Result<GraphChoice> StepGraphs::NewChoice() {
  return device_.NewChoice(stream_);
}

Status StepGraphs::Branch(GraphChoice choice, size_t bodies,
                          const std::function<void(size_t)>& body) {
  return branches_ == Branches::kInGraph ? BranchInGraph(choice, bodies, body)
                                         : BranchByHost(bodies, body);
}

Status StepGraphs::BranchInGraph(GraphChoice choice, size_t bodies,
                                 const std::function<void(size_t)>& body) {
  in_graph_ = device_.BeginBranch(choice, bodies, stream_);
  for (size_t b = 0; b < bodies && in_graph_.ok(); ++b) {
    body(b);  // in which a branch may fail
    if (in_graph_.ok()) in_graph_ = device_.NextBody(stream_);
  }
  return in_graph_;
}

Status StepGraphs::BranchByHost(size_t bodies,
                                const std::function<void(size_t)>& body) {
  graphs_ += 1 + bodies;
  if (graphs_ > kMaxGraphs) {
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[gpu] the step is more than ", kMaxGraphs,
               " graphs, for a branch in a loop is captured for each "
               "iteration; give the loop fewer iterations, or use the cpu")};
  }
  STOWAGE_RETURN_IF_ERROR(EndGraph());
  std::vector<Section>* const outer = into_;
  outer->back().bodies.resize(bodies);
  for (size_t b = 0; b < bodies; ++b) {
    STOWAGE_RETURN_IF_ERROR(BeginGraph());
    std::vector<Section> sections;
    into_ = &sections;
    body(b);
    const Status ended = is_capturing_ ? EndGraph() : Status();
    into_ = outer;
    outer->back().bodies[b] = std::move(sections);
    STOWAGE_RETURN_IF_ERROR(ended);
  }
  return BeginGraph();
}

Status StepGraphs::End() {
  // All is one graph, or an error has ended it before.
  if (sections_.empty() || !is_capturing_) return {};
  STOWAGE_RETURN_IF_ERROR(EndGraph());
  return BeginGraph();
}

Status StepGraphs::Launch(const uint32_t* chosen) const {
  const auto all = std::span(sections_);
  STOWAGE_ASSIGN_OR_RETURN([[maybe_unused]] const bool is_whole,
                           Launch(all.first(all.size() - 1), chosen));
  return device_.LaunchGraph(sections_.back().graph, stream_);
}

Result<bool> StepGraphs::Launch(std::span<const Section> sections,
                                const uint32_t* chosen) const {
  for (const Section& section : sections) {
    STOWAGE_RETURN_IF_ERROR(device_.LaunchGraph(section.graph, stream_));
    if (section.bodies.empty()) continue;
    STOWAGE_RETURN_IF_ERROR(device_.Synchronize(stream_));
    if (*chosen >= section.bodies.size()) return false;
    STOWAGE_ASSIGN_OR_RETURN(const bool is_whole,
                             Launch(section.bodies[*chosen], chosen));
    if (!is_whole) return false;
  }
  return true;
}

}  // namespace stowage::gpu
