#include "runtime/checkpoint.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/hash.h"
#include "base/strings.h"
#include "formats/array.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "ir/op_def.h"
#include "runtime/check_programs.h"
#include "runtime/checkpoint_file.h"
#include "runtime/checkpoint_format.h"
#include "runtime/initial_values.h"
#include "runtime/weight_source.h"

namespace stowage {
namespace {

// Whether a step of `graph` changes its params or states.
bool Updates(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return GetOpDef(node.op).updates > 0;
  });
}

// That all values are finite, before they replace what `file` holds; `also`, if it is not
// null, takes each part.
Status CheckFinite(const Runner& runner, const std::vector<ValueId>& values,
                   const OutputFile& file, Fnv1a* also = nullptr) {
  for (const ValueId id : values) {
    const ValueInfo& value = runner.graph().value(id);
    const Status finite = ReadInParts(
        runner, value,
        [&](Bytes begin, std::span<const std::byte> part) -> Status {
          if (also != nullptr) also->Update(part);
          return CheckFinitePart(runner.name(), value, begin, part);
        });
    if (finite.ok()) continue;
    return Error{finite.error().code,
                 StrCat(finite.error().message, "; ", Quoted(file.path()),
                        " is not written, and what it held before is still "
                        "there")};
  }
  return {};
}

Status Write(const Runner& runner, const std::vector<ValueId>& values,
             const SafetensorsHeader& header, const OutputFile& file) {
  const std::string prefix = SafetensorsPrefix(header);
  return file.ReplaceBy([&](const OutputFile::WritePart& write) -> Status {
    STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(prefix))));
    for (const ValueId id : values) {
      STOWAGE_RETURN_IF_ERROR(ReadInParts(
          runner, runner.graph().value(id),
          [&](Bytes, std::span<const std::byte> part) { return write(part); }));
    }
    return {};
  });
}

bool IsNpz(const std::string& path) {
  constexpr std::string_view kEnding = ".npz";
  if (path.size() < kEnding.size()) return false;
  return std::ranges::equal(
      std::string_view(path).substr(path.size() - kEnding.size()), kEnding,
      [](char a, char b) { return a == b || (a >= 'A' && a + 32 == b); });
}

// An archive, which is made whole before it is written.
Status WriteNpz(const Runner& runner, const std::vector<ValueId>& values,
                const OutputFile& file) {
  std::vector<NamedArray> arrays;
  for (const ValueId id : values) {
    const ValueInfo& value = runner.graph().value(id);
    arrays.push_back({value.name, {.type = value.type, .bytes = {}}});
    Array& array = arrays.back().array;
    array.bytes.resize(static_cast<size_t>(value.type.bytes()));
    STOWAGE_RETURN_IF_ERROR(
        runner.ReadBytes(value.name, value.type.dtype, array.data()));
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string archive, NpzBytes(arrays));
  return file.Replace(archive);
}

}  // namespace

Status CheckFinite(const Runner& runner) {
  const Graph& graph = runner.graph();
  for (const ValueId id : PersistentValues(graph)) {
    const ValueInfo& value = graph.value(id);
    if (!IsFloat(value.type.dtype)) continue;
    STOWAGE_RETURN_IF_ERROR(ReadInParts(
        runner, value, [&](Bytes begin, std::span<const std::byte> part) {
          return CheckFinitePart(runner.name(), value, begin, part);
        }));
  }
  return {};
}

Status SaveCheckpoint(const Runner& runner, const std::string& path,
                      int64_t step, const RunNotes& notes,
                      const CheckpointBase& base) {
  STOWAGE_ASSIGN_OR_RETURN(const OutputFile file, OutputFile::Claim(path));
  return SaveCheckpoint(runner, file, step, notes, base);
}

Status SaveCheckpoint(const Runner& runner, const OutputFile& file,
                      int64_t step, const RunNotes& notes,
                      const CheckpointBase& base) {
  STOWAGE_ASSIGN_OR_RETURN(
      SavedValues saved,
      ValuesToSave(runner.graph(), file.path(), step, notes, base));
  SafetensorsHeader& header = saved.header;
  Fnv1a digest = BeginDigest(header);
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner, saved.values, file, &digest));
  header.metadata.emplace_back(kDigestKey, HexDigest(digest.digest()));
  return Write(runner, saved.values, header, file);
}

Status SaveWeights(const Runner& runner, const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const OutputFile file, OutputFile::Claim(path));
  return SaveWeights(runner, file);
}

Status SaveWeights(const Runner& runner, const OutputFile& file) {
  const std::vector<ValueId> values = WeightValues(runner.graph());
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner, values, file));
  if (IsNpz(file.path())) return WriteNpz(runner, values, file);
  SafetensorsHeader header = HeaderOf(runner.graph(), values);
  // As PyTorch's writer notes it, for readers that ask.
  header.metadata = {{"format", "pt"}};
  return Write(runner, values, header, file);
}

Status CheckSaveWeights(const Graph& graph, const std::string& path) {
  if (!IsNpz(path)) return {};
  constexpr Bytes kMaxBytes = (Bytes{1} << 32) - 1;
  const auto fail = [&](const std::string& why) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[save-weights] ", Quoted(path), " is an NPZ, ", why,
                        "; give it a name that ends in .safetensors")};
  };
  Bytes bytes = 0;
  for (const ValueId id : WeightValues(graph)) {
    const ValueInfo& value = graph.value(id);
    if (value.type.dtype == DType::kBF16) {
      return fail(StrCat("which has no bf16, as ", Quoted(value.name), " is"));
    }
    bytes += value.type.bytes();
  }
  if (bytes <= kMaxBytes) return {};
  return fail(StrCat("which holds less than 4 GiB, and the weights are ", bytes,
                     " bytes"));
}

namespace {

// That what the checkpoint leaves out is what `base` has.
Status CheckBase(const CheckpointFile& checkpoint, const CheckpointBase& base) {
  const std::string* const saved = checkpoint.base();
  if (saved == nullptr || *saved == base.content) return {};
  return checkpoint.Fail(
      StrCat("is of params trained beside a base that it leaves out, ", *saved,
             base.content.empty() ? "; here there is no base"
                                  : StrCat("; the base here is ", base.content),
             "; resume beside the files that it was trained with"));
}

// That the tensors are what `graph`, of the program called so, has, but for what `base`
// has instead.
Status CheckTensors(const CheckpointFile& checkpoint, const Graph& graph,
                    std::string_view name, const CheckpointBase& base) {
  const std::string program = StrCat("program ", Quoted(name));
  std::unordered_map<std::string_view, size_t> saved;
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    saved.emplace(checkpoint.tensors()[i].name, i);
  }
  const auto role_of = [&](size_t index) {
    return static_cast<int64_t>(index) < checkpoint.params() ? Role::kParam
                                                             : Role::kState;
  };
  // What a checkpoint without a base lacks, no base makes good.
  std::unordered_set<std::string_view> left_out;
  if (checkpoint.base() != nullptr) {
    left_out.insert(base.params.begin(), base.params.end());
  }
  std::unordered_set<std::string_view> known;
  for (const ValueId id : PersistentValues(graph)) {
    const ValueInfo& value = graph.value(id);
    known.insert(value.name);
    const auto found = saved.find(value.name);
    if (found == saved.end()) {
      if (value.role == Role::kParam && left_out.contains(value.name)) continue;
      return checkpoint.Fail(
          StrCat("lacks the ", RoleName(value.role), " ", Quoted(value.name),
                 " of ", program,
                 "; it is of another model, optimizer, loss scale or adapter"));
    }
    const SafeTensor& tensor = checkpoint.tensors()[found->second];
    if (tensor.type != value.type) {
      return checkpoint.Fail(
          StrCat("has ", Quoted(value.name), " as ", tensor.type.ToString(),
                 ", ", program, " has ", value.type.ToString(),
                 tensor.type.shape == value.type.shape
                     ? "; it is of a run in another element type"
                     : "; it is of another model"));
    }
    if (role_of(found->second) != value.role) {
      return checkpoint.Fail(
          StrCat("has ", checkpoint.params(), " params, so that ",
                 Quoted(value.name), " is a ", RoleName(role_of(found->second)),
                 "; in ", program, " it is a ", RoleName(value.role)));
    }
  }
  // What evaluates may leave an optimizer's states unread; anything else that it
  // does not know means another model or optimizer.
  const bool leaves_states = !Updates(graph);
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    const SafeTensor& tensor = checkpoint.tensors()[i];
    if (known.contains(tensor.name)) continue;
    if (role_of(i) == Role::kState && leaves_states) continue;
    return checkpoint.Fail(StrCat(
        "has a ", RoleName(role_of(i)), " ", Quoted(tensor.name), " that ",
        program,
        " lacks; it is of another model, optimizer, loss scale or adapter"));
  }
  return {};
}

// Where a rank's step takes a tensor to.
struct Target {
  std::string name;  // empty: nowhere
  DType dtype = DType::kF32;
  ByteRange range;  // of the tensor
  Bytes bytes = 0;  // of what is called so, at least as many
};

std::vector<Target> TargetsOf(const CheckpointFile& checkpoint,
                              const Runner& step, const RankValues& values) {
  std::unordered_map<std::string_view, const ValueInfo*> known;
  for (const ValueId id : PersistentValues(values.whole)) {
    const ValueInfo& value = values.whole.value(id);
    known.emplace(value.name, &value);
  }
  std::vector<Target> targets;
  for (const SafeTensor& tensor : checkpoint.tensors()) {
    Target& target = targets.emplace_back();
    const auto found = known.find(tensor.name);
    if (found == known.end()) continue;  // an optimizer's
    const ValueInfo& value = *found->second;
    target = {value.name,
              value.type.dtype,
              {0, value.type.bytes()},
              value.type.bytes()};
    const auto block = BlockOf(values, step.graph(), value);
    if (!block) continue;
    target.name = values.own_name(value.name);
    target.bytes = *block * SizeOf(target.dtype);
    const Bytes begin = std::min(values.rank * target.bytes, target.range.end);
    target.range = {begin, std::min(begin + target.bytes, target.range.end)};
  }
  return targets;
}

// Zeros behind what a target takes.
Status FillUp(const Target& target, Runner& step) {
  const Bytes taken = target.range.end - target.range.begin;
  return InParts(
      target.bytes - taken, [&](Bytes begin, std::span<std::byte> part) {
        std::ranges::fill(part, std::byte{0});
        return step.WritePart(target.name, target.dtype, taken + begin, part);
      });
}

}  // namespace

Result<CheckpointInfo> ReadCheckpointInfo(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointFile checkpoint,
                           CheckpointFile::Open(path));
  CheckpointInfo info = checkpoint.info();
  info.digest = checkpoint.digest();
  return info;
}

Status CheckCheckpoint(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointFile checkpoint,
                           CheckpointFile::Open(path));
  const Result<CheckedBytes> checked =
      checkpoint.Check(checkpoint.Everything());
  return checked.ok() ? Status() : checked.error();
}

Result<int64_t> LoadCheckpoint(Runner& runner, const std::string& path,
                               const CheckpointBase& base) {
  return LoadCheckpoint(runner, {.whole = runner.graph()}, path, base);
}

Result<int64_t> LoadCheckpoint(Runner& step, const RankValues& values,
                               const std::string& path,
                               const CheckpointBase& base) {
  STOWAGE_ASSIGN_OR_RETURN(const CheckpointFile checkpoint,
                           CheckpointFile::Open(path));
  // Before the data: what fits no model here need not be read, however large.
  STOWAGE_RETURN_IF_ERROR(CheckBase(checkpoint, base));
  STOWAGE_RETURN_IF_ERROR(
      CheckTensors(checkpoint, values.whole, step.name(), base));
  // All of it is checked before any of it is taken.
  const std::vector<Target> targets = TargetsOf(checkpoint, step, values);
  std::vector<ByteRange> wanted;
  std::vector<std::string> names;
  for (const Target& target : targets) {
    wanted.push_back(target.range);
    if (!target.name.empty()) names.push_back(target.name);
  }
  STOWAGE_ASSIGN_OR_RETURN(const CheckedBytes checked,
                           checkpoint.Check(std::move(wanted)));
  STOWAGE_RETURN_IF_ERROR(AllOrNone(step, names, [&]() -> Status {
    STOWAGE_RETURN_IF_ERROR(checkpoint.Read(
        checked,
        [&](size_t tensor, Bytes begin, std::span<const std::byte> part) {
          const Target& target = targets[tensor];
          return step.WritePart(target.name, target.dtype,
                                begin - target.range.begin, part);
        }));
    for (const Target& target : targets) {
      STOWAGE_RETURN_IF_ERROR(FillUp(target, step));
    }
    return {};
  }));
  return checkpoint.info().step;
}

}  // namespace stowage
