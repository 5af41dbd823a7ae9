#include "runtime/weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/safetensors.h"
#include "math/small_floats.h"
#include "runtime/values.h"

namespace stowage {

Result<WeightSource> WeightSource::Open(const std::string& path,
                                        std::string_view package) {
  STOWAGE_ASSIGN_OR_RETURN(TensorFile file, TensorFile::Open(path, package));
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

namespace {

constexpr size_t kMaxNamed = 5;  // of what is wrong, in a message

bool MatchesAny(const std::vector<std::string>& patterns,
                std::string_view name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return GlobMatches(pattern, name);
  });
}

// "a", "b" and 3 more
std::string Named(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMaxNamed; ++i) {
    text += StrCat(i == 0 ? "" : ", ", Quoted(names[i]));
  }
  if (names.size() > kMaxNamed) {
    text += StrCat(" and ", names.size() - kMaxNamed, " more");
  }
  return text;
}

std::vector<std::string> NamesOf(const std::vector<SafeTensor>& tensors) {
  std::vector<std::string> names;
  for (const SafeTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

// Applies the rules; sets (*matched)[i] if rule i renames it.
std::string Renamed(std::string name, const std::vector<RenameRule>& rules,
                    std::vector<bool>* matched) {
  for (size_t i = 0; i < rules.size(); ++i) {
    if (auto renamed = GlobRewrite(rules[i].from, rules[i].to, name)) {
      name = *std::move(renamed);
      (*matched)[i] = true;
    }
  }
  return name;
}

double ElementAt(DType dtype, const std::byte* data, int64_t index) {
  const std::byte* const at = data + index * SizeOf(dtype);
  const auto read = [&](auto value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::kF64:
      return read(double{});
    case DType::kF32:
      return read(float{});
    case DType::kF16:
      return math::HalfToFloat(read(uint16_t{}));
    case DType::kBF16:
      return math::BFloat16ToFloat(read(uint16_t{}));
    default:
      STOWAGE_CHECK(false);
  }
}

// Casts with one rounding, to nearest.
void PutElement(DType dtype, double value, std::byte* data, int64_t index) {
  std::byte* const at = data + index * SizeOf(dtype);
  const auto write = [&](auto element) {
    std::memcpy(at, &element, sizeof(element));
  };
  switch (dtype) {
    case DType::kF64:
      return write(value);
    case DType::kF32:
      return write(static_cast<float>(value));
    case DType::kF16:
      return write(math::FloatToHalf(math::RoundToOddFloat(value)));
    case DType::kBF16:
      return write(math::FloatToBFloat16(math::RoundToOddFloat(value)));
    default:
      STOWAGE_CHECK(false);
  }
}

// A param and its tensor in the file.
struct Match {
  size_t tensor = 0;  // of WeightSource::tensors
  ValueId param = 0;
  bool transposed = false;
};

// The names of a file's tensors after renaming.
struct NamedTensor {
  size_t index = 0;  // of WeightSource::tensors
  const SafeTensor* tensor = nullptr;
  std::string name;
  bool is_state = false;  // of a checkpoint, and perhaps an optimizer's
};

Result<std::vector<NamedTensor>> NameTensors(const WeightSource& file,
                                             const WeightRules& rules) {
  const std::vector<SafeTensor>& tensors = file.tensors();
  const std::optional<int64_t> params = file.params();
  std::vector<NamedTensor> named;
  std::unordered_map<std::string, std::string> taken;
  std::vector<bool> matched(rules.rename.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const SafeTensor& tensor = tensors[i];
    std::string name = Renamed(tensor.name, rules.rename, &matched);
    const bool is_state = params && static_cast<int64_t>(i) >= *params;
    const auto [other, is_new] = taken.emplace(name, tensor.name);
    if (!is_new && is_state) continue;
    if (!is_new) {
      return file.Fail(StrCat("has ", Quoted(other->second), " and ",
                              Quoted(tensor.name),
                              ", which the rules both call ", Quoted(name)));
    }
    named.push_back({i, &tensor, std::move(name), is_state});
  }
  for (size_t i = 0; i < matched.size(); ++i) {
    if (matched[i]) continue;
    const RenameRule& rule = rules.rename[i];
    return file.Fail(StrCat(
        "has no tensor that the rule ", Quoted(StrCat(rule.from, "=", rule.to)),
        " renames, each rule in turn; it has ", Named(NamesOf(tensors))));
  }
  return named;
}

// Checks that each pattern matches something: a misspelt one would be ignored silently.
Status CheckPatterns(const WeightSource& file, const Graph& graph,
                     const std::vector<ValueId>& params,
                     const WeightRules& rules) {
  std::vector<std::string> all, matrices;
  for (const ValueId id : params) {
    const ValueInfo& param = graph.value(id);
    all.push_back(param.name);
    if (param.type.shape.rank() == 2) matrices.push_back(param.name);
  }
  const auto check = [&](const std::vector<std::string>& patterns,
                         const std::vector<std::string>& names,
                         std::string_view rule, std::string_view of) -> Status {
    for (const std::string& pattern : patterns) {
      const bool matches = std::ranges::any_of(
          names, [&](const auto& name) { return GlobMatches(pattern, name); });
      if (matches) continue;
      return file.Fail(StrCat("is read by a rule that ", rule, " ",
                              Quoted(pattern), ", which matches none of the ",
                              names.size(), " ", of, ": ", Named(names)));
    }
    return {};
  };
  STOWAGE_RETURN_IF_ERROR(check(rules.transpose, matrices, "transposes",
                                "matrices of the program"));
  STOWAGE_RETURN_IF_ERROR(check(rules.allow_missing, all, "allows to lack",
                                "params of the program"));
  return check(rules.allow_unused, NamesOf(file.tensors()), "allows to leave",
               "tensors of the file");
}

// Returns whether the tensor must be transposed to be the param's. Error: its type fits
// neither way.
Result<bool> CheckType(const WeightSource& file, const NamedTensor& found,
                       const ValueInfo& param, bool transpose) {
  if (!found.tensor->foreign.empty()) {
    return file.Fail(StrCat(
        "has ", Quoted(found.tensor->name), " as ", found.tensor->foreign,
        ", which is no type here; the ", RoleName(param.role), " ",
        Quoted(param.name), " is ", param.type.ToString()));
  }
  const TensorType& has = found.tensor->type;
  const std::string what =
      StrCat("has ", Quoted(found.tensor->name), " as ", has.ToString(),
             ", the ", RoleName(param.role), " ", Quoted(param.name), " is ",
             param.type.ToString());
  if (has.dtype != param.type.dtype &&
      (!IsFloat(has.dtype) || !IsFloat(param.type.dtype))) {
    return file.Fail(
        StrCat(what, "; only floats are cast, to floats of another size"));
  }
  const Shape& shape = param.type.shape;
  const bool fits = has.shape == shape;
  if (shape.rank() != 2 || has.shape.rank() != 2) {
    if (fits) return false;
    return file.Fail(StrCat(what, "; the shapes must be equal"));
  }
  const bool fits_transposed = has.shape == Shape({shape[1], shape[0]});
  if (transpose ? fits_transposed : fits) return transpose;
  if (transpose && fits) {
    return file.Fail(StrCat(what,
                            ", and a rule transposes it, though it fits "
                            "as it is; take that rule away"));
  }
  if (fits_transposed) {
    return file.Fail(StrCat(what,
                            ": it fits only transposed; if the file has "
                            "it so, give a rule that transposes ",
                            Quoted(param.name)));
  }
  return file.Fail(StrCat(what, "; the shapes must be equal"));
}

// Reads a tensor in the type and layout of its param.
Status Convert(const WeightSource& file, const Match& match,
               const ValueInfo& param, std::vector<std::byte>* data) {
  const SafeTensor& tensor = file.tensors()[match.tensor];
  const TensorType& from = tensor.type;
  const TensorType& to = param.type;
  std::vector<std::byte> source(static_cast<size_t>(from.bytes()));
  STOWAGE_RETURN_IF_ERROR(file.Read(match.tensor, source));
  if (const auto index = FindNonFinite(from.dtype, source)) {
    return file.Fail(StrCat("has ", FloatText(from.dtype, source, *index),
                            " at element ", *index, " of ",
                            Quoted(tensor.name)));
  }
  if (from.dtype == to.dtype && !match.transposed) {
    *data = std::move(source);
    return {};
  }
  data->resize(static_cast<size_t>(to.bytes()));
  const int64_t columns = match.transposed ? to.shape[1] : 1;
  const int64_t rows = match.transposed ? to.shape[0] : 0;
  for (int64_t i = 0; i < to.shape.num_elements(); ++i) {
    const int64_t at = match.transposed ? i % columns * rows + i / columns : i;
    PutElement(to.dtype, ElementAt(from.dtype, source.data(), at), data->data(),
               i);
  }
  if (const auto index = FindNonFinite(to.dtype, *data)) {
    return file.Fail(
        StrCat("has a number at an element of ", Quoted(tensor.name), ", ",
               from.ToString(), ", that ", DTypeName(to.dtype),
               " cannot hold: it is ", FloatText(to.dtype, *data, *index),
               " as element ", *index, " of the param"));
  }
  return {};
}

// The tensors of a file that are params and states of a graph.
struct MatchedWeights {
  WeightSource file;
  std::vector<Match> matches;
  LoadedWeights loaded;
};

// Matches all tensors before the first is read. `program` is named in errors.
Result<MatchedWeights> MatchWeights(const Graph& graph,
                                    std::string_view program,
                                    const std::string& path,
                                    const WeightRules& rules) {
  for (const RenameRule& rule : rules.rename) {
    const Result<RenameRule> good =
        ParseRenameRule(StrCat(rule.from, "=", rule.to));
    if (!good.ok()) return good.error();
  }
  STOWAGE_ASSIGN_OR_RETURN(WeightSource file,
                           WeightSource::Open(path, "weights"));
  STOWAGE_RETURN_IF_ERROR(file.Check());
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> tensors,
                           NameTensors(file, rules));
  std::unordered_map<std::string_view, const NamedTensor*> by_name;
  for (const NamedTensor& tensor : tensors) {
    by_name.emplace(tensor.name, &tensor);
  }

  LoadedWeights loaded;
  std::vector<std::string> lacking, left;
  std::vector<std::pair<ValueId, const NamedTensor*>> pairs;
  const std::vector<ValueId> params = WeightValues(graph);
  STOWAGE_RETURN_IF_ERROR(CheckPatterns(file, graph, params, rules));
  for (const ValueId id : params) {
    const std::string& name = graph.value(id).name;
    const auto found = by_name.find(name);
    if (found != by_name.end()) {
      pairs.emplace_back(id, found->second);
      by_name.erase(found);
    } else if (MatchesAny(rules.allow_missing, name)) {
      loaded.missing.push_back(name);
    } else {
      lacking.push_back(name);
    }
  }
  for (const NamedTensor& tensor : tensors) {
    if (!by_name.contains(tensor.name) || tensor.is_state) continue;
    const bool allowed = MatchesAny(rules.allow_unused, tensor.tensor->name);
    (allowed ? loaded.unused : left).push_back(tensor.tensor->name);
  }
  if (!lacking.empty() || !left.empty()) {
    std::string message;
    if (!lacking.empty()) {
      message = StrCat("lacks ", lacking.size(), " of ", params.size(),
                       " params: ", Named(lacking));
    }
    if (!left.empty()) {
      message += StrCat(lacking.empty() ? "has " : "; it has ", left.size(),
                        " tensors that no param takes: ", Named(left));
    }
    return file.Fail(
        StrCat(message,
               "; rename what is called otherwise, or allow params to "
               "be missing and tensors to be unused"));
  }
  if (pairs.empty()) {
    return file.Fail(StrCat("has no tensor for any of the ", params.size(),
                            " params of program ", Quoted(program)));
  }

  std::vector<Match> matches;
  for (const auto& [id, tensor] : pairs) {
    const ValueInfo& param = graph.value(id);
    STOWAGE_ASSIGN_OR_RETURN(
        const bool transposed,
        CheckType(file, *tensor, param,
                  MatchesAny(rules.transpose, param.name)));
    matches.push_back({tensor->index, id, transposed});
  }
  loaded.loaded = std::ssize(matches);
  return MatchedWeights{std::move(file), std::move(matches), std::move(loaded)};
}

// Passes the bytes of each match to `take`.
Status ReadMatched(
    const MatchedWeights& matched, const Graph& graph,
    const std::function<Status(const ValueInfo&, std::span<const std::byte>)>&
        take) {
  std::vector<std::byte> data;
  for (const Match& match : matched.matches) {
    const ValueInfo& param = graph.value(match.param);
    STOWAGE_RETURN_IF_ERROR(Convert(matched.file, match, param, &data));
    STOWAGE_RETURN_IF_ERROR(take(param, data));
  }
  return {};
}

}  // namespace

Result<RenameRule> ParseRenameRule(std::string_view text) {
  const auto fail = [&](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[weights] ", Quoted(text), " is no rename: ", why)};
  };
  const size_t at = text.find('=');
  if (at == std::string_view::npos) {
    return fail("there is no =; expected FROM=TO");
  }
  RenameRule rule{std::string(text.substr(0, at)),
                  std::string(text.substr(at + 1))};
  if (rule.from.empty() || rule.to.empty()) {
    return fail("one side is empty; expected FROM=TO");
  }
  if (std::ranges::count(rule.to, '*') > std::ranges::count(rule.from, '*')) {
    return fail("there are more * after the = than before it");
  }
  return rule;
}

Result<LoadedWeights> LoadWeights(Runner& runner, const std::string& path,
                                  const WeightRules& rules) {
  const Graph& graph = runner.graph();
  STOWAGE_ASSIGN_OR_RETURN(MatchedWeights matched,
                           MatchWeights(graph, runner.name(), path, rules));
  std::vector<std::string> names;
  for (const Match& match : matched.matches) {
    names.push_back(graph.value(match.param).name);
  }
  STOWAGE_RETURN_IF_ERROR(AllOrNone(runner, names, [&] {
    return ReadMatched(
        matched, graph,
        [&](const ValueInfo& param, std::span<const std::byte> data) {
          return runner.WriteBytes(param.name, param.type.dtype, data);
        });
  }));
  return std::move(matched.loaded);
}

Result<LoadedWeights> ReadWeights(
    const Graph& graph, const std::string& path, const WeightRules& rules,
    const std::function<Status(const ValueInfo&, std::span<const std::byte>)>&
        take) {
  STOWAGE_ASSIGN_OR_RETURN(MatchedWeights matched,
                           MatchWeights(graph, graph.name(), path, rules));
  STOWAGE_RETURN_IF_ERROR(ReadMatched(matched, graph, take));
  return std::move(matched.loaded);
}

}  // namespace stowage
