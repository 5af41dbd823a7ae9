#include "compile/helpers.h"

#include <algorithm>

#include "base/strings.h"
#include "compile/kernel.h"
#include "ir/tensor_type.h"

namespace stowage::compile {
namespace {

constexpr std::string_view kMathFunctions[] = {
    "ceil",  "cos",    "erf",   "erfc",   "exp",   "expm1",  "fabs",
    "floor", "fmod",   "log",   "log1p",  "pow",   "rint",   "sin",
    "sqrt",  "tanh",   "trunc", "ceilf",  "cosf",  "erff",   "erfcf",
    "expf",  "expm1f", "fabsf", "floorf", "fmodf", "logf",   "log1pf",
    "powf",  "rintf",  "sinf",  "sqrtf",  "tanhf", "truncf",
};

// Whether `text` has the name in front of a parenthesis: a call, not a word of a comment.
bool Calls(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const bool begins = at == 0 || !IsPartOfName(text[at - 1]);
    if (begins && text.substr(at + name.size()).starts_with('(')) return true;
  }
  return false;
}

}  // namespace

std::string HelpersFor(std::string_view text) {
  std::string result;
  std::string all(text);
  for (const auto helpers : {NumberFunctions(), NumberFormats()}) {
    for (size_t i = helpers.size(); i-- > 0;) {
      const HelperText& helper = helpers[i];
      const bool is_for_both = helper.name.ends_with('@');
      std::string definitions;
      for (const DType type : {DType::kF32, DType::kF64}) {
        if (type == DType::kF64 && !is_for_both) continue;
        if (!Calls(all, ForType(helper.name, type))) continue;
        definitions += ForType(helper.text, type) + "\n";
      }
      all += definitions;
      result = definitions + result;
    }
  }
  return result;
}

std::vector<std::string_view> MathFunctionsIn(std::string_view text) {
  std::vector<std::string_view> called;
  for (const std::string_view name : kMathFunctions) {
    if (Calls(text, name)) called.push_back(name);
  }
  std::ranges::sort(called);
  return called;
}

std::string BytesInC(std::string_view bytes) {
  constexpr size_t kLine = 88;
  std::string text = "  ";
  size_t line = 0;
  for (const char c : bytes) {
    if (text.size() - line > kLine) {
      text += "\n  ";
      line = text.size();
    }
    text += StrCat(static_cast<int>(static_cast<unsigned char>(c)), ",");
  }
  return text + "\n";
}

}  // namespace stowage::compile
