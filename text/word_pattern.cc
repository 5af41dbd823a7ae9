// WordPattern by PCRE2.

#include "text/word_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/strings.h"
#include "text/unicode.h"

namespace stowage::text {
namespace {

constexpr size_t kLongestPattern = 65'535;

// Limits of PCRE2's match steps, a few nanoseconds each. Every offset may take kEasySteps.
// Offsets that take more, such as the first of a thousand spaces, share a limit for the whole
// text, so that the time is linear in its bytes for any pattern.
constexpr int64_t kEasySteps = 1000;
constexpr int64_t kFreeSteps = 10'000'000;
constexpr int64_t kStepsPerByte = 64;

// Unicode's White_Space, as part of a class. PCRE2's \s also has U+180E, which Unicode 6.3
// removed.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029})"
    R"(\x{202f}\x{205f}\x{3000})";

// Letters and numbers added by Unicode 15, 15.1 and 16, as parts of a class.
constexpr std::string_view kNewLetters =
    R"(\x{1c89}\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3})"
    R"(\x{10d4a}-\x{10d65}\x{10d6f}-\x{10d85}\x{10ec2}-\x{10ec4}\x{1123f})"
    R"(\x{11240}\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5})"
    R"(\x{113b7}\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02})"
    R"(\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f}\x{13441}-\x{13446})"
    R"(\x{13460}-\x{143fa}\x{16100}-\x{1611d}\x{16d40}-\x{16d6c}\x{18cff})"
    R"(\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d})"
    R"(\x{1e4d0}-\x{1e4eb}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739})"
    R"(\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::string_view kNewNumbers =
    R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9})"
    R"(\x{11f50}-\x{11f59}\x{16130}-\x{16139}\x{16d70}-\x{16d79})"
    R"(\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3}\x{1e4f0}-\x{1e4f9})"
    R"(\x{1e5f1}-\x{1e5fa})";

// Translates a pattern from Oniguruma's syntax to PCRE2's.
class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Run() {
    while (at_ < pattern_.size()) {
      if (Is("\\")) {
        STOWAGE_RETURN_IF_ERROR(Escape());
      } else if (in_class_ && Is("&&")) {
        return Unsupported("an intersection of classes (&&)");
      } else if (in_class_ && Is("[") && !Is("[:")) {
        return Unsupported("a class within a class");
      } else if (in_class_ && Is("[:")) {
        Copy(2);
        while (at_ < pattern_.size() && !Is(":]")) Copy(1);
        Copy(2);
      } else if (!in_class_ && Is("[")) {
        Copy(Is("[^") ? 2 : 1);
        if (Is("]")) Copy(1);  // stands for itself
        in_class_ = true;
      } else {
        if (Is("]")) in_class_ = false;
        Copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  bool Is(std::string_view what) const {
    return pattern_.substr(at_).starts_with(what);
  }
  void Copy(size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += std::min(bytes, pattern_.size() - at_);
  }
  Error Unsupported(std::string_view what) const {
    return {ErrorCode::kUnsupported,
            StrCat("[text] the pattern ", Quoted(pattern_), " has ", what,
                   " at byte ", at_,
                   ", which is not known here; expected what "
                   "Oniguruma and PCRE2 both read alike")};
  }

  // A class of these characters, or its complement.
  void Class(size_t bytes, std::string_view members, bool negated) {
    at_ += bytes;
    if (in_class_) {
      out_ += members;
    } else {
      out_ += StrCat(negated ? "[^" : "[", members, "]");
    }
  }

  Status Escape() {
    if (Is("\\h") || Is("\\H")) return Unsupported("\\h");
    if (Is("\\s")) {
      Class(2, kSpaces, false);
    } else if (Is("\\S") && !in_class_) {
      Class(2, kSpaces, true);
    } else if (Is("\\p{L}")) {
      Class(5, StrCat("\\p{L}", kNewLetters), false);
    } else if (Is("\\p{N}")) {
      Class(5, StrCat("\\p{N}", kNewNumbers), false);
    } else if (Is("\\P{L}") && !in_class_) {
      Class(5, StrCat("\\p{L}", kNewLetters), true);
    } else if (Is("\\P{N}") && !in_class_) {
      Class(5, StrCat("\\p{N}", kNewNumbers), true);
    } else {
      Copy(2);
    }
    return {};
  }

  std::string_view pattern_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

const PCRE2_UCHAR8* Units(std::string_view text) {
  return reinterpret_cast<const PCRE2_UCHAR8*>(text.data());
}

}  // namespace

struct WordPattern::Compiled {
  explicit Compiled(pcre2_code* of) : code(of) {
    jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { pcre2_code_free(code); }

  pcre2_code* code;
  bool jit = false;
};

Result<WordPattern> WordPattern::Compile(std::string_view pattern) {
  if (pattern.size() > kLongestPattern) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[text] a pattern has ", pattern.size(),
                        " bytes; at most ", kLongestPattern, " are read")};
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string translated,
                           Translation(pattern).Run());
  pcre2_compile_context* const context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int code = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const compiled =
      pcre2_compile(Units(translated), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE |
                        PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
                    &code, &at, context);
  pcre2_compile_context_free(context);
  if (compiled == nullptr) {
    PCRE2_UCHAR8 message[256] = {};
    pcre2_get_error_message(code, message, sizeof(message));
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[text] ", Quoted(pattern), " is no pattern: ",
                        reinterpret_cast<const char*>(message))};
  }
  auto owned = std::make_shared<const Compiled>(compiled);
  uint32_t empty = 0;
  pcre2_pattern_info(compiled, PCRE2_INFO_MATCHEMPTY, &empty);
  if (empty != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[text] the pattern ", Quoted(pattern),
                        " matches the empty string; expected one that takes at "
                        "least a character")};
  }
  return WordPattern(std::move(owned));
}

struct WordPattern::Search::State {
  explicit State(std::shared_ptr<const Compiled> of)
      : compiled(std::move(of)),
        match(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (stack != nullptr) pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }

  std::shared_ptr<const Compiled> compiled;
  pcre2_match_data* match;
  pcre2_match_context* context;
  pcre2_jit_stack* stack = nullptr;  // if the default 32 KiB are too few
  int64_t steps = kFreeSteps;        // left for hard offsets

  void Passed(size_t bytes) {
    steps += kStepsPerByte * static_cast<int64_t>(bytes);
  }

  // PCRE2's result: a match that begins in [from, last].
  int Run(std::string_view text, size_t from, size_t last, int64_t limit) {
    pcre2_set_match_limit(context, static_cast<uint32_t>(limit));
    pcre2_set_offset_limit(context, last);
    const auto run = [&] {
      return (compiled->jit ? pcre2_jit_match
                            : pcre2_match)(  // the first skips the UTF-8 check
          compiled->code, Units(text), text.size(), from,
          compiled->jit ? 0 : PCRE2_NO_UTF_CHECK, match, context);
    };
    const int found = run();
    if (found != PCRE2_ERROR_JIT_STACKLIMIT || stack != nullptr) return found;
    stack = pcre2_jit_stack_create(64 << 10, 8 << 20, nullptr);
    pcre2_jit_stack_assign(context, nullptr, stack);
    return run();
  }

  // A match that begins at `at`, within the steps that are left.
  int RunHard(std::string_view text, size_t at) {
    int found = PCRE2_ERROR_MATCHLIMIT;
    for (int64_t limit = 4 * kEasySteps;
         found == PCRE2_ERROR_MATCHLIMIT && limit <= steps; limit *= 4) {
      steps -= limit;
      found = Run(text, at, at, limit);
    }
    return found;
  }

  int FindFrom(std::string_view text, size_t from) {
    while (true) {
      const int found = Run(text, from, PCRE2_UNSET, kEasySteps);
      if (found != PCRE2_ERROR_MATCHLIMIT) return found;
      // Some offset is hard: try them one by one; after it, continue with all.
      bool was_hard = false;
      while (!was_hard) {
        int here = Run(text, from, from, kEasySteps);
        was_hard = here == PCRE2_ERROR_MATCHLIMIT;
        if (was_hard) here = RunHard(text, from);
        if (here != PCRE2_ERROR_NOMATCH || from == text.size()) return here;
        from += FirstCharacter(text.substr(from)).bytes;
      }
    }
  }
};

WordPattern::Search::Search(const WordPattern& pattern)
    : state_(std::make_unique<State>(pattern.compiled_)) {}
WordPattern::Search::Search(Search&&) noexcept = default;
WordPattern::Search::~Search() = default;

WordPattern::Found WordPattern::Search::Find(std::string_view text, size_t from,
                                             size_t* begin, size_t* end) {
  const int found = state_->FindFrom(text, from);
  if (found == PCRE2_ERROR_NOMATCH) {
    state_->Passed(text.size() - from);
    return Found::kNo;
  }
  if (found < 0) return Found::kTooHard;
  const PCRE2_SIZE* const range = pcre2_get_ovector_pointer(state_->match);
  *begin = range[0];
  *end = range[1];
  // \K can return a range whose end is before its beginning.
  if (*end <= *begin || *begin < from) return Found::kTooHard;
  state_->Passed(*end - from);
  return Found::kYes;
}

}  // namespace stowage::text
