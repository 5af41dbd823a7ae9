#include "gpu/step_graphs.h"

#include <utility>

namespace stowage::gpu {

StepGraphs::~StepGraphs() { Destroy(sections_); }

void StepGraphs::Destroy(const std::vector<Section>& sections) {
  for (const Section& section : sections) {
    device_.Destroy(section.graph);
    for (const auto& body : section.bodies) Destroy(body);
  }
}

Status StepGraphs::Begin() {
  const Status begun = device_.BeginCapture(stream_);
  is_capturing_ = begun.ok();
  return begun;
}

Status StepGraphs::End() {
  is_capturing_ = false;
  STOWAGE_ASSIGN_OR_RETURN(const DeviceGraph graph,
                           device_.EndCapture(stream_));
  into_->push_back({graph});
  return {};
}

Status StepGraphs::Capture(const std::function<Status()>& give) {
  STOWAGE_RETURN_IF_ERROR(Begin());
  const Status given = give();
  const Status ended = is_capturing_ ? End() : Status();
  return given.ok() ? ended : given;
}

Status StepGraphs::Branch(size_t bodies,
                          const std::function<void(size_t)>& body) {
  STOWAGE_RETURN_IF_ERROR(End());
  std::vector<Section>* const outer = into_;
  outer->back().bodies.resize(bodies);
  for (size_t b = 0; b < bodies; ++b) {
    STOWAGE_RETURN_IF_ERROR(Begin());
    std::vector<Section> sections;
    into_ = &sections;
    body(b);
    const Status ended = is_capturing_ ? End() : Status();
    into_ = outer;
    outer->back().bodies[b] = std::move(sections);
    STOWAGE_RETURN_IF_ERROR(ended);
  }
  return Begin();
}

Status StepGraphs::Launch(const std::vector<Section>& sections,
                          const uint32_t* chosen) const {
  for (const Section& section : sections) {
    STOWAGE_RETURN_IF_ERROR(device_.LaunchGraph(section.graph, stream_));
    if (section.bodies.empty()) continue;
    STOWAGE_RETURN_IF_ERROR(device_.Synchronize(stream_));
    if (*chosen >= section.bodies.size()) continue;
    STOWAGE_RETURN_IF_ERROR(Launch(section.bodies[*chosen], chosen));
  }
  return {};
}

}  // namespace stowage::gpu
