#include "tests/gpu/ptx/ptx_module.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/strings.h"

namespace stowage::testing::ptx {
namespace {

// A constant takes this much, whatever its type: 32 elements of 8 bytes.
constexpr uint32_t kConstantBytes = 8 * kLanes;

Error Unknown(std::string_view what, std::string_view text) {
  return {ErrorCode::kUnsupported, StrCat("[ptx] ", what, ": ", text)};
}

std::string_view Trim(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) {
    s.remove_prefix(1);
  }
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) {
    s.remove_suffix(1);
  }
  return s;
}

std::string_view Word(std::string_view* s) {
  *s = Trim(*s);
  size_t n = 0;
  while (n < s->size() && !std::isspace(static_cast<unsigned char>((*s)[n]))) {
    ++n;
  }
  const std::string_view word = s->substr(0, n);
  *s = Trim(s->substr(n));
  return word;
}

template <typename T>
std::optional<T> Number(std::string_view s, int base = 10) {
  T x{};
  const auto [end, error] =
      std::from_chars(s.data(), s.data() + s.size(), x, base);
  if (error != std::errc() || end != s.data() + s.size()) return {};
  return x;
}

// "1234", "-5", "0x1F", "0f3F800000", "0d3FF0000000000000".
std::optional<uint64_t> Literal(std::string_view s) {
  if (s.starts_with("0f") || s.starts_with("0d") || s.starts_with("0x")) {
    return Number<uint64_t>(s.substr(2), 16);
  }
  if (s.starts_with("-")) {
    const auto x = Number<int64_t>(s);
    if (!x) return {};
    return static_cast<uint64_t>(*x);
  }
  return Number<uint64_t>(s);
}

// "1.0", of 32 bits.
std::optional<uint64_t> Decimal(std::string_view s) {
  float x = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), x);
  if (error != std::errc() || end != s.data() + s.size()) return {};
  return std::bit_cast<uint32_t>(x);
}

uint32_t RoundUp(uint32_t x, uint32_t to) { return (x + to - 1) / to * to; }

// The array of a file that the launch gives its size.
bool IsDynamicShared(std::string_view name) {
  return name.ends_with("stowage_dynamic_sharedE") ||
         name == "stowage_dynamic_shared";
}

// .extern .shared .align 128 .b8 NAME[], before the entries of a file.
uint32_t DynamicAlignment(std::string_view file) {
  uint32_t most = 1;
  constexpr std::string_view kDeclared = ".extern .shared .align ";
  for (size_t at = file.find(kDeclared); at != std::string_view::npos;
       at = file.find(kDeclared, at + 1)) {
    std::string_view rest = file.substr(at + kDeclared.size());
    const auto alignment = Number<uint32_t>(Word(&rest));
    Word(&rest);  // the type
    if (alignment && IsDynamicShared(rest.substr(0, rest.find('[')))) {
      most = std::max(most, *alignment);
    }
  }
  return most;
}

// Behind the brace that closes the first one from `at` on, or npos.
size_t EndOfBraces(std::string_view text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    if (text.substr(at, 2) == "//")
      at = std::min(text.find('\n', at), text.size());
    else if (text[at] == '{')
      ++depth;
    else if (text[at] == '}' && --depth == 0)
      return at + 1;
  }
  return std::string_view::npos;
}

uint8_t TypeBytes(std::string_view type) {
  if (type == ".pred") return kPredicate;
  const auto bits = Number<int>(type.size() > 2 ? type.substr(2) : "");
  return bits ? static_cast<uint8_t>(*bits / 8) : uint8_t{0};
}

// A tensor and its coordinates are operands of their own: of [%rd1, {%r1, %r2}] that is
// [%rd1], %r1, %r2.
std::string WithoutTensors(std::string_view operands) {
  std::string flat;
  bool in_address = false, in_tensor = false;
  for (const char c : operands) {
    if (c == '[') in_address = true;
    if (c == ',' && in_address && !in_tensor) {
      flat += ']';
      in_tensor = true;
    }
    const bool ends_tensor = c == ']' && in_tensor;
    if (c == ']') in_address = in_tensor = false;
    if (!ends_tensor) flat += c;
  }
  return flat;
}

class Reader {
 public:
  Reader(Kernel* kernel, uint32_t dynamic_alignment)
      : kernel_(*kernel), dynamic_alignment_(dynamic_alignment) {
    OpenScope();
    const char* const names[] = {"%tid.x", "%ntid.x", "%ctaid.x", "%ctaid.y",
                                 "%nctaid.x"};
    static_assert(std::size(names) == static_cast<size_t>(Special::kCount));
    for (const char* const name : names) Declare(name, 4);
  }

  Status Read(std::string_view text) {
    STOWAGE_RETURN_IF_ERROR(ReadHead(&text));
    STOWAGE_RETURN_IF_ERROR(ReadBody(text));
    for (const Branch& branch : branches_) {
      const auto target = Target(branch);
      if (!target) return Unknown("no such label", branch.label);
      kernel_.code[branch.at].target = *target;
    }
    PlaceDynamicShared();
    size_t next = 0;
    for (Instruction& in : kernel_.code) {
      in.slots = kernel_.slots.data() + next;
      next += in.count;
    }
    return {};
  }

 private:
  struct Branch {
    size_t at;
    std::string_view label;
    size_t scope;
  };

  // NAME( .param .align 8 .b8 NAME_param_0[64] ) .maxntid 256, 1, 1 ... {
  Status ReadHead(std::string_view* text) {
    const size_t open = text->find('('), brace = text->find("\n{");
    if (open == std::string_view::npos || brace == std::string_view::npos) {
      return Unknown("no head of an entry", text->substr(0, 80));
    }
    kernel_.name = Trim(text->substr(0, open));
    std::string_view head = text->substr(0, brace);
    line_ = static_cast<int32_t>(std::count(head.begin(), head.end(), '\n'));
    const size_t param = head.find(".param");
    if (param != std::string_view::npos) {
      const size_t left = head.find('[', param), right = head.find(']', param);
      const size_t name = head.rfind(' ', left);
      const auto bytes =
          Number<uint32_t>(head.substr(left + 1, right - left - 1));
      if (!bytes || head.find(".param", right) != std::string_view::npos) {
        return Unknown("not one param of bytes", kernel_.name);
      }
      kernel_.param_bytes = *bytes;
      constexpr std::string_view kAlign = ".align ";
      const size_t align = head.find(kAlign, param);
      if (align < left) {
        std::string_view rest = head.substr(align + kAlign.size());
        kernel_.param_alignment = Number<uint32_t>(Word(&rest)).value_or(1);
      }
      symbols_[std::string(head.substr(name + 1, left - name - 1))] = 0;
    }
    const size_t bound = head.find(".maxntid ");
    if (bound != std::string_view::npos) {
      std::string_view rest = head.substr(bound + 9);
      kernel_.max_threads =
          Number<uint32_t>(rest.substr(0, rest.find(','))).value_or(0);
    }
    text->remove_prefix(brace + 2);
    return {};
  }

  Status ReadBody(std::string_view text) {
    ++line_;
    for (;;) {
      SkipBlank(&text);
      if (text.empty()) return Unknown("no end of", kernel_.name);
      if (text[0] == '{') {
        OpenScope();
        text.remove_prefix(1);
        continue;
      }
      if (text[0] == '}') {
        scopes_.pop_back();
        if (scopes_.empty()) return {};
        text.remove_prefix(1);
        continue;
      }
      size_t end = text.find_first_of(";:");
      while (end != std::string_view::npos && text.substr(end, 2) == "::") {
        end = text.find_first_of(";:", end + 2);  // as in .shared::cta
      }
      if (end == std::string_view::npos) return Unknown("no ; after", text);
      const std::string_view statement = Trim(text.substr(0, end));
      if (text[end] == ':') {
        if (!labels_
                 .try_emplace({scopes_.back().number, std::string(statement)},
                              static_cast<uint32_t>(kernel_.code.size()))
                 .second) {
          return Unknown("a second label", statement);
        }
      } else {
        STOWAGE_RETURN_IF_ERROR(ReadStatement(statement));
      }
      line_ += static_cast<int32_t>(std::count(
          text.begin(), text.begin() + static_cast<long>(end), '\n'));
      text.remove_prefix(end + 1);
    }
  }

  void SkipBlank(std::string_view* text) {
    while (!text->empty()) {
      if (text->starts_with("//")) {
        text->remove_prefix(std::min(text->find('\n'), text->size()));
      } else if (std::isspace(static_cast<unsigned char>(text->front()))) {
        line_ += text->front() == '\n' ? 1 : 0;
        text->remove_prefix(1);
      } else {
        return;
      }
    }
  }

  Status ReadStatement(std::string_view s) {
    if (s.starts_with(".reg")) return ReadRegisters(s);
    if (s.starts_with(".shared")) return ReadShared(s);
    if (s.starts_with(".param")) return ReadCallParam(s);
    if (s.starts_with(".pragma")) return ReadPragma(s);
    return ReadInstruction(s);
  }

  // .pragma "used_bytes_mask 4095", of the next instruction; "nounroll", a hint.
  Status ReadPragma(std::string_view s) {
    constexpr std::string_view kUsed = "\"used_bytes_mask ";
    const size_t at = s.find(kUsed);
    if (at != std::string_view::npos) {
      const std::string_view rest = s.substr(at + kUsed.size());
      const auto mask = Number<uint32_t>(rest.substr(0, rest.find('"')));
      if (!mask) return Unknown("no mask", s);
      used_bytes_ = *mask;
    }
    return {};
  }

  void OpenScope() {
    scopes_.push_back({parents_.size(), {}});
    parents_.push_back(scopes_.size() < 2 ? kOutermost
                                          : scopes_[scopes_.size() - 2].number);
  }

  // What is between braces has labels of its own, as it has registers: inline assembly
  // that was inlined twice has each twice.
  std::optional<uint32_t> Target(const Branch& branch) const {
    for (size_t scope = branch.scope; scope != kOutermost;
         scope = parents_[scope]) {
      const auto found = labels_.find({scope, std::string(branch.label)});
      if (found != labels_.end()) return found->second;
    }
    return {};
  }

  void Declare(const std::string& name, uint8_t bytes) {
    const uint32_t size = bytes == kPredicate ? 4 : bytes * kLanes;
    if (bytes != kPredicate) {
      kernel_.register_bytes = RoundUp(kernel_.register_bytes, 64);
    }
    scopes_.back().registers[name] = {kernel_.register_bytes, kernel_.registers,
                                      bytes};
    kernel_.register_bytes += size;
    ++kernel_.registers;
  }

  // .reg .b32 %r<12>   or   .reg .b32 %a, %b
  Status ReadRegisters(std::string_view s) {
    std::string_view rest = s.substr(4);
    const uint8_t bytes = TypeBytes(Word(&rest));
    if (bytes == 0) return Unknown("no such type", s);
    while (!rest.empty()) {
      const size_t comma = rest.find(',');
      const std::string_view name = Trim(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
      const size_t angle = name.find('<');
      if (angle == std::string_view::npos) {
        Declare(std::string(name), bytes);
        continue;
      }
      const auto n =
          Number<int>(name.substr(angle + 1, name.size() - angle - 2));
      if (!n) return Unknown("no number of registers", s);
      for (int i = 0; i < *n; ++i) {
        Declare(StrCat(name.substr(0, angle), i), bytes);
      }
    }
    return {};
  }

  // .shared .align 16 .b8 NAME[1024]
  Status ReadShared(std::string_view s) {
    std::string_view rest = s.substr(7);
    if (Word(&rest) != ".align") return Unknown("no alignment", s);
    const auto align = Number<uint32_t>(Word(&rest));
    const uint8_t bytes = TypeBytes(Word(&rest));
    const size_t left = rest.find('[');
    const auto n = left == std::string_view::npos
                       ? std::optional<uint32_t>(1)
                       : Number<uint32_t>(
                             rest.substr(left + 1, rest.find(']') - left - 1));
    if (!align || !n || bytes == 0) return Unknown("no array", s);
    kernel_.static_shared = RoundUp(kernel_.static_shared, *align);
    symbols_[std::string(Trim(rest.substr(0, left)))] = kernel_.static_shared;
    kernel_.static_shared += *n * bytes;
    return {};
  }

  // .param .b64 param0: what a call is handed, which is kept as a register.
  Status ReadCallParam(std::string_view s) {
    std::string_view rest = s.substr(6);
    const uint8_t bytes = TypeBytes(Word(&rest));
    if (bytes == 0) return Unknown("no such type", s);
    Declare(std::string(rest), bytes);
    return {};
  }

  const Slot* Register(std::string_view name) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      const auto found = scopes_[i].registers.find(std::string(name));
      if (found != scopes_[i].registers.end()) return &found->second;
    }
    return nullptr;
  }

  // The same value for all lanes.
  Slot Constant(uint64_t value, uint8_t bytes) {
    if (bytes == kPredicate) {
      value = value != 0 ? kAllLanes : 0;
      bytes = 4;
    }
    const auto [found, is_new] =
        constants_.try_emplace({value, bytes}, kernel_.constants.size());
    if (is_new) {
      kernel_.constants.resize(kernel_.constants.size() + kConstantBytes);
      for (int lane = 0; lane < kLanes; ++lane) {
        std::memcpy(kernel_.constants.data() + found->second +
                        static_cast<size_t>(lane * bytes),
                    &value, bytes);  // little-endian
      }
    }
    return {static_cast<uint32_t>(found->second), kConstant, bytes};
  }

  // [%rd1+16], [NAME], [NAME+4]
  Status ReadAddress(std::string_view s) {
    if (s.size() < 3 || s.front() != '[' || s.back() != ']') {
      return Unknown("no address", s);
    }
    s = Trim(s.substr(1, s.size() - 2));
    int64_t plus = 0;
    const size_t sign = s.find('+');
    if (sign != std::string_view::npos) {
      const auto x = Number<int64_t>(Trim(s.substr(sign + 1)));
      if (!x) return Unknown("no offset", s);
      plus = *x;
      s = Trim(s.substr(0, sign));
    }
    Slot slot;
    if (const Slot* const named = Register(s); named != nullptr) {
      slot = *named;
    } else if (const auto address = Symbol(s); address) {
      slot = Constant(*address, 8);
    } else {
      return Unknown("no such address", s);
    }
    slot.plus = plus;
    kernel_.slots.push_back(slot);
    return {};
  }

  std::optional<uint64_t> Symbol(std::string_view s) {
    const auto found = symbols_.find(std::string(s));
    if (found != symbols_.end()) return found->second;
    // It follows the others.
    if (IsDynamicShared(s)) return kDynamicShared;
    return {};
  }

  Status ReadOperand(std::string_view s, uint8_t width) {
    if (width == kAddress) return ReadAddress(s);
    if (s == "_") {
      kernel_.slots.push_back({0, kDiscarded, width});
      return {};
    }
    if (const Slot* const named = Register(s); named != nullptr) {
      if (width != kAnySize && named->bytes != width) {
        return Unknown("a register of another size", s);
      }
      kernel_.slots.push_back(*named);
      return {};
    }
    auto value = Literal(s);
    if (!value) value = Symbol(s);
    if (!value && width == 4) value = Decimal(s);
    if (s == "%globaltimer") value = 0;  // time stands still
    if (!value) return Unknown("no such operand", s);
    if (width == kAnySize) width = 8;
    kernel_.slots.push_back(Constant(*value, width));
    return {};
  }

  Status ReadInstruction(std::string_view s) {
    Instruction in;
    in.line = line_;
    in.used_bytes = std::exchange(used_bytes_, kAllLanes);
    const std::string_view text = s;
    if (s.front() == '@') {
      s.remove_prefix(1);
      in.negated = s.front() == '!';
      if (in.negated) s.remove_prefix(1);
      const Slot* const guard = Register(Word(&s));
      if (guard == nullptr || guard->bytes != kPredicate) {
        return Unknown("no such guard", text);
      }
      in.guard = guard->offset;
      in.guard_number = guard->number;
    }
    std::string name(Word(&s));
    if (name == "call.uni") {
      // call.uni FUNCTION, (a, b): an instruction of its own for each function.
      const size_t comma = std::min(s.find(','), s.size());
      name += StrCat(" ", Trim(s.substr(0, comma)));
      const size_t open = s.find('('), close = s.rfind(')');
      if (close == std::string_view::npos) return Unknown("no call", text);
      s = Trim(s.substr(open + 1, close - open - 1));
    }
    in.operation = FindOperation(name);
    if (in.operation == nullptr) return Unknown("no such instruction", text);
    kernel_.has_products |= name.starts_with("wgmma.");
    const size_t first = kernel_.slots.size();
    if (in.operation->flow == Flow::kBranch) {
      branches_.push_back({kernel_.code.size(), s, scopes_.back().number});
      s = "";
    }
    const std::string flat = WithoutTensors(s);
    s = flat;
    // Braces and bars only group.
    const std::vector<uint8_t>& widths = in.operation->widths;
    for (size_t i = 0; !s.empty(); ++i) {
      size_t end = 0;
      while (end < s.size() && s[end] != ',' && s[end] != '|') ++end;
      std::string_view operand = Trim(s.substr(0, end));
      s = Trim(s.substr(std::min(end + 1, s.size())));
      while (operand.starts_with("{")) operand = Trim(operand.substr(1));
      while (operand.ends_with("}")) {
        operand = Trim(operand.substr(0, operand.size() - 1));
      }
      if (widths.empty()) return Unknown("an operand too many", text);
      const Status read =
          ReadOperand(operand, widths[std::min(i, widths.size() - 1)]);
      if (!read.ok()) return Unknown(read.error().message, text);
    }
    in.count = static_cast<uint32_t>(kernel_.slots.size() - first);
    if (in.count + in.operation->optional < widths.size()) {
      return Unknown("operands missing", text);
    }
    kernel_.code.push_back(in);
    return {};
  }

  // Behind the other arrays, and where it is aligned to what was declared and to no more,
  // so that a kernel which relies on more is found out.
  void PlaceDynamicShared() {
    kernel_.dynamic_at = RoundUp(kernel_.static_shared, dynamic_alignment_);
    constexpr uint32_t kMaxWanted = 1024;  // a swizzle's pattern
    if (dynamic_alignment_ < kMaxWanted &&
        kernel_.dynamic_at % (2 * dynamic_alignment_) == 0) {
      kernel_.dynamic_at += dynamic_alignment_;
    }
    const uint64_t at = kernel_.dynamic_at;
    for (const auto& [key, offset] : constants_) {
      if (key.first != kDynamicShared) continue;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        std::memcpy(kernel_.constants.data() + offset + lane * key.second, &at,
                    key.second);
      }
    }
  }

  // Stands for its address until the size of the other arrays is known.
  static constexpr uint64_t kDynamicShared = 0x5D'0000'0000;

  struct PairHash {
    size_t operator()(const std::pair<uint64_t, uint8_t>& x) const {
      return std::hash<uint64_t>()(x.first * 31 + x.second);
    }
  };

  static constexpr size_t kOutermost = ~size_t{0};
  struct Scope {
    size_t number;
    std::unordered_map<std::string, Slot> registers;
  };

  Kernel& kernel_;
  uint32_t dynamic_alignment_;
  int32_t line_ = 0;
  uint32_t used_bytes_ = kAllLanes;
  std::vector<Scope> scopes_;    // that are open
  std::vector<size_t> parents_;  // by number of a scope
  std::unordered_map<std::string, uint64_t> symbols_;
  std::map<std::pair<size_t, std::string>, uint32_t> labels_;  // by scope
  std::vector<Branch> branches_;
  std::unordered_map<std::pair<uint64_t, uint8_t>, size_t, PairHash> constants_;
};

}  // namespace

Status Module::Add(std::string text) {
  texts_.push_back(std::make_unique<std::string>(std::move(text)));
  const std::string_view all = *texts_.back();
  const uint32_t dynamic_alignment = DynamicAlignment(all);
  constexpr std::string_view kEntry = ".entry ";
  for (size_t at = all.find(kEntry); at != std::string_view::npos;) {
    const size_t begin = at + kEntry.size();
    const size_t open = all.find('(', begin);
    const size_t end = EndOfBraces(all, all.find("\n{", begin));
    if (open == std::string_view::npos || end == std::string_view::npos) {
      return Unknown("no end of", all.substr(begin, 80));
    }
    const std::string name{Trim(all.substr(begin, open - begin))};
    const std::string_view body = all.substr(begin, end - begin);
    if (!entries_.try_emplace(name, Entry{body, dynamic_alignment, nullptr})
             .second) {
      return Unknown("a second entry", name);
    }
    at = all.find(kEntry, end);
  }
  return {};
}

std::vector<std::string> Module::names() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) names.push_back(entry.first);
  return names;
}

Result<const Kernel*> Module::Find(const std::string& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return Unknown("no such entry", name);
  Entry& entry = found->second;
  if (entry.kernel == nullptr) {
    auto kernel = std::make_unique<Kernel>();
    STOWAGE_RETURN_IF_ERROR(
        Reader(kernel.get(), entry.dynamic_alignment).Read(entry.text));
    for (std::string_view rest = entry.text; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      kernel->lines.emplace_back(Trim(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    entry.kernel = std::move(kernel);
  }
  return static_cast<const Kernel*>(entry.kernel.get());
}

const std::vector<Operation>& Operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> joined = ArithmeticOperations();
    for (auto table :
         {ConversionOperations(), WarpOperations(), WarpgroupOperations(),
          MemoryOperations(), MbarrierOperations(), BulkCopyOperations()}) {
      std::ranges::move(table, std::back_inserter(joined));
    }
    return joined;
  }();
  return all;
}

const Operation* FindOperation(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const Operation*> map;
    for (const Operation& operation : Operations()) {
      map[operation.name] = &operation;
    }
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace stowage::testing::ptx
