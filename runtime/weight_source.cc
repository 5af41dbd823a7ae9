#include "runtime/weight_source.h"

#include <algorithm>

#include "base/bytes.h"

namespace stowage {

Result<WeightSource> WeightSource::Open(const std::string& path,
                                        std::string_view room) {
  STOWAGE_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(path, room));
  std::optional<CheckpointFile> checkpoint;
  if (!file.is_npz()) {
    STOWAGE_ASSIGN_OR_RETURN(checkpoint, CheckpointFile::OpenIfOne(path));
  }
  return WeightSource(std::move(file), std::move(checkpoint));
}

const std::vector<SafeTensor>& WeightSource::tensors() const {
  return checkpoint_ ? checkpoint_->tensors() : file_.tensors();
}

std::optional<int64_t> WeightSource::params() const {
  if (!checkpoint_) return std::nullopt;
  return checkpoint_->params();
}

Status WeightSource::Read(size_t i, std::span<std::byte> to) const {
  if (!checkpoint_ || !checkpoint_->is_sharded()) {
    return file_.Read(tensors()[i], to);
  }
  std::vector<ByteRange> wanted(tensors().size());
  wanted[i] = {0, static_cast<Bytes>(to.size())};
  STOWAGE_ASSIGN_OR_RETURN(const CheckedBytes checked,
                           checkpoint_->Check(std::move(wanted)));
  return checkpoint_->Read(
      checked,
      [&](size_t, Bytes begin, std::span<const std::byte> part) -> Status {
        std::ranges::copy(part, to.begin() + begin);
        return {};
      });
}

Status WeightSource::Check() const {
  if (!checkpoint_) return {};
  const Result<CheckedBytes> checked =
      checkpoint_->Check(checkpoint_->Everything());
  return checked.ok() ? Status() : checked.error();
}

std::vector<ValueId> WeightValues(const Graph& graph) {
  std::vector<bool> is_of_model(Index(graph.num_values()), false);
  for (const Node& node : graph.nodes()) {
    if (node.phase != Phase::kForward) continue;
    for (const ValueId input : node.inputs) is_of_model[Index(input)] = true;
  }
  std::vector<ValueId> values = graph.Leaves(Role::kParam);
  for (const ValueId id : graph.Leaves(Role::kState)) {
    if (is_of_model[Index(id)]) values.push_back(id);
  }
  return values;
}

}  // namespace stowage
