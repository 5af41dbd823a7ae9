#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/strings.h"
#include "text/jinja_value.h"

namespace stowage::jinja {
namespace {

using ListPointer = std::shared_ptr<const List>;
using DictPointer = std::shared_ptr<const Dict>;

Error UndefinedError(const Value& value) {
  return InvalidArgumentError(Quoted(std::get<Undefined>(value).name),
                              " is undefined");
}

// The methods of Python's dict and str.
constexpr std::array<std::string_view, 11> kDictMethods = {
    "clear", "copy",    "fromkeys",   "get",    "items", "keys",
    "pop",   "popitem", "setdefault", "update", "values"};
constexpr std::array<std::string_view, 47> kStringMethods = {
    "capitalize",   "casefold",     "center",    "count",     "encode",
    "endswith",     "expandtabs",   "find",      "format",    "format_map",
    "index",        "isalnum",      "isalpha",   "isascii",   "isdecimal",
    "isdigit",      "isidentifier", "islower",   "isnumeric", "isprintable",
    "isspace",      "istitle",      "isupper",   "join",      "ljust",
    "lower",        "lstrip",       "maketrans", "partition", "removeprefix",
    "removesuffix", "replace",      "rfind",     "rindex",    "rjust",
    "rpartition",   "rsplit",       "rstrip",    "split",     "splitlines",
    "startswith",   "strip",        "swapcase",  "title",     "translate",
    "upper",        "zfill"};
bool Among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// An argument that must be a string.
Result<std::string> StringOf(const Value* argument, std::string_view of) {
  if (argument != nullptr && Is<std::string>(*argument)) {
    return std::get<std::string>(*argument);
  }
  return UnsupportedError(of, " of ",
                          argument == nullptr ? "nothing" : KindOf(*argument));
}

// Whether all characters are ASCII, whose case needs no table.
Status CheckAscii(std::string_view text, std::string_view of) {
  if (std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; })) {
    return {};
  }
  return UnsupportedError(of, " of letters beyond ASCII");
}
char Upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

Result<Value> Cased(std::string_view name, std::string text) {
  STOWAGE_RETURN_IF_ERROR(CheckAscii(text, name));
  const bool first_upper = name == "capitalize";
  for (size_t i = 0; i < text.size(); ++i) {
    const bool upper = name == "upper" || (first_upper && i == 0);
    text[i] = upper ? Upper(text[i]) : Lower(text[i]);
  }
  return Value(std::move(text));
}

Result<Value> Replaced(std::string_view text, const Arguments& arguments) {
  if (arguments.values.size() != 2) {
    return UnsupportedError("replace with a count of times");
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string from,
                           StringOf(&arguments.values[0], "replace"));
  STOWAGE_ASSIGN_OR_RETURN(const std::string to,
                           StringOf(&arguments.values[1], "replace"));
  if (from.empty()) return UnsupportedError("replace of an empty string");
  std::string out;
  while (true) {
    const size_t at = text.find(from);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return Value(std::move(out));
    out += to;
    text.remove_prefix(at + from.size());
  }
}

// strip, lstrip, rstrip and trim, of white space or of the argument's characters.
Result<Value> Stripped(std::string_view text, bool left, bool right,
                       const Value* characters) {
  if (characters == nullptr || Is<None>(*characters)) {
    return Value(std::string(Strip(text, left, right)));
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string set,
                           StringOf(characters, "strip"));
  STOWAGE_RETURN_IF_ERROR(CheckAscii(set, "strip"));
  if (left) {
    text.remove_prefix(std::min(text.find_first_not_of(set), text.size()));
  }
  if (right) text = text.substr(0, text.find_last_not_of(set) + 1);
  return Value(std::string(text));
}

Result<Value> Split(std::string_view text, const Arguments& arguments) {
  std::vector<Value> parts;
  const Value* const separator = arguments.Find(0, "sep");
  const Value* const limit = arguments.Find(1, "maxsplit");
  if (separator == nullptr || Is<None>(*separator)) {
    if (limit != nullptr)
      return UnsupportedError("split by white space with a limit");
    for (text = Strip(text); !text.empty();) {
      // The word ends before white space: at the first character at which stripping from the left
      // removes something.
      size_t end = 0;
      while (end < text.size() &&
             Strip(text.substr(end), true, false).size() == text.size() - end) {
        end += Characters(text.substr(end, 4)).front().size();
      }
      parts.emplace_back(std::string(text.substr(0, end)));
      text = Strip(text.substr(end), true, false);
    }
    return MakeList(std::move(parts));
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string by, StringOf(separator, "split"));
  if (by.empty()) return InvalidArgumentError("split by an empty string");
  int64_t left = -1;
  if (limit != nullptr) {
    if (!Is<int64_t>(*limit)) return UnsupportedError("a limit of split");
    left = std::get<int64_t>(*limit);
  }
  while (true) {
    const size_t at = left == 0 ? std::string_view::npos : text.find(by);
    parts.emplace_back(std::string(text.substr(0, at)));
    if (at == std::string_view::npos) return MakeList(std::move(parts));
    text.remove_prefix(at + by.size());
    --left;
  }
}

Result<Value> Joined(const Value& items, std::string_view separator) {
  STOWAGE_ASSIGN_OR_RETURN(const ListPointer list, Iterate(items));
  std::string out;
  for (const Value& item : list->items) {
    STOWAGE_ASSIGN_OR_RETURN(const std::string text, TextOf(item));
    if (&item != list->items.data()) out += separator;
    out += text;
  }
  return Value(std::move(out));
}

Value ItemsOf(const Dict& dict) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict.items) {
    pairs.push_back(MakeList({key, value}));
  }
  return MakeList(std::move(pairs));
}

Result<Value> CallStringMethod(std::string_view name, const std::string& text,
                               const Arguments& arguments) {
  if (!arguments.named.empty() && name != "split") {
    return UnsupportedError("the method ", Quoted(name),
                            " with arguments by name");
  }
  const Value* const first = arguments.Find(0, "");
  if (name == "strip") return Stripped(text, true, true, first);
  if (name == "lstrip") return Stripped(text, true, false, first);
  if (name == "rstrip") return Stripped(text, false, true, first);
  if (name == "split") return Split(text, arguments);
  if (name == "upper" || name == "lower" || name == "capitalize") {
    return Cased(name, text);
  }
  if (name == "replace") return Replaced(text, arguments);
  if (name == "startswith" || name == "endswith") {
    if (arguments.values.size() != 1) {
      return UnsupportedError(name, " of a part of a string");
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::string part, StringOf(first, name));
    return Value(name == "startswith" ? text.starts_with(part)
                                      : text.ends_with(part));
  }
  if (name == "join" && first != nullptr) return Joined(*first, text);
  return UnsupportedError("the method ", Quoted(name), " of a string");
}

// map, select, reject, selectattr, rejectattr: generators over the items kept.
Result<Value> Chosen(std::string_view name, const Value& of,
                     const Arguments& arguments) {
  STOWAGE_ASSIGN_OR_RETURN(const ListPointer list, Iterate(of));
  const auto attribute = [&](const Value& item,
                             const Value* which) -> Result<Value> {
    STOWAGE_ASSIGN_OR_RETURN(const std::string path, StringOf(which, name));
    if (path.find('.') != std::string::npos) {
      return UnsupportedError(name, " by the path ", Quoted(path));
    }
    return ItemOf(item, path);
  };
  List kept;
  for (const Value& item : list->items) {
    if (name == "map") {
      const Value* const which = arguments.Find(0, "attribute");
      if (!arguments.values.empty() || which == nullptr ||
          arguments.named.size() != 1) {
        return UnsupportedError("map by a filter, or with a default");
      }
      STOWAGE_ASSIGN_OR_RETURN(Value value, attribute(item, which));
      kept.items.push_back(std::move(value));
      continue;
    }
    size_t test = 0;  // the position of the test's name
    Value tested = item;
    if (name.ends_with("attr")) {
      STOWAGE_ASSIGN_OR_RETURN(tested, attribute(item, arguments.Find(0, "")));
      test = 1;
    }
    bool passes = IsTrue(tested);
    if (arguments.values.size() > test) {
      STOWAGE_ASSIGN_OR_RETURN(const std::string what,
                               StringOf(&arguments.values[test], name));
      Arguments rest;
      rest.values.assign(
          arguments.values.begin() + static_cast<std::ptrdiff_t>(test) + 1,
          arguments.values.end());
      STOWAGE_ASSIGN_OR_RETURN(passes, ApplyTest(what, tested, rest));
    }
    if (passes == name.starts_with("select")) kept.items.push_back(item);
  }
  return Value(Generator{std::make_shared<const List>(std::move(kept))});
}

// A position from Python's index; below 0 or at least the size if it is out of range.
int64_t Position(int64_t index, int64_t size) {
  return index < 0 ? index + size : index;
}

}  // namespace

const Value* Arguments::Find(size_t position, std::string_view name) const {
  if (position < values.size()) return &values[position];
  for (const auto& [called, value] : named) {
    if (called == name) return &value;
  }
  return nullptr;
}

Result<Value> ApplyFilter(std::string_view name, const Value& of,
                          const Arguments& arguments) {
  if (name == "default" || name == "d") {
    const Value* const all = arguments.Find(1, "boolean");
    const bool missing =
        Is<Undefined>(of) || (all != nullptr && IsTrue(*all) && !IsTrue(of));
    if (!missing) return of;
    const Value* const otherwise = arguments.Find(0, "default_value");
    return otherwise == nullptr ? Value(std::string()) : *otherwise;
  }
  if (name == "length" || name == "count") {
    STOWAGE_ASSIGN_OR_RETURN(const int64_t length, LengthOf(of));
    return Value(length);
  }
  if (name == "list") {
    STOWAGE_ASSIGN_OR_RETURN(const ListPointer list, Iterate(of));
    return Value(list);
  }
  if (name == "first" || name == "last") {
    if (name == "last" && Is<Generator>(of)) {
      return InvalidArgumentError("it takes the last of a generator");
    }
    STOWAGE_ASSIGN_OR_RETURN(const ListPointer list, Iterate(of));
    if (list->items.empty()) {
      return Value(Undefined{StrCat("the ", name, " of nothing")});
    }
    return name == "first" ? list->items.front() : list->items.back();
  }
  if (name == "reverse" && (IsList(of) || Is<Generator>(of))) {
    STOWAGE_ASSIGN_OR_RETURN(const ListPointer list, Iterate(of));
    return Value(Generator{std::make_shared<const List>(
        List{{list->items.rbegin(), list->items.rend()}})});
  }
  if (name == "join") {
    if (arguments.Find(1, "attribute") != nullptr) {
      return UnsupportedError("join by an attribute");
    }
    const Value* const by = arguments.Find(0, "d");
    std::string separator;
    if (by != nullptr) {
      STOWAGE_ASSIGN_OR_RETURN(separator, StringOf(by, "join"));
    }
    return Joined(of, separator);
  }
  if (name == "items") {
    if (!Is<Undefined>(of) && !IsDict(of)) {
      return InvalidArgumentError("it takes items of ", KindOf(of));
    }
    STOWAGE_ASSIGN_OR_RETURN(
        const ListPointer pairs,
        Iterate(IsDict(of) ? ItemsOf(*std::get<DictPointer>(of)) : of));
    return Value(Generator{pairs});
  }
  if (name == "map" || name == "select" || name == "reject" ||
      name == "selectattr" || name == "rejectattr") {
    return Chosen(name, of, arguments);
  }
  if (name == "tojson") {
    if (!arguments.values.empty() || !arguments.named.empty()) {
      return UnsupportedError("tojson with options");
    }
    STOWAGE_ASSIGN_OR_RETURN(std::string json, JsonOf(of));
    return Value(std::move(json));
  }
  if (name == "int" && arguments.values.empty() && Is<int64_t>(of)) return of;
  // Other filters take any value as its text.
  constexpr std::array<std::string_view, 6> kOfTexts = {
      "trim", "upper", "lower", "capitalize", "string", "replace"};
  if (!Among(kOfTexts, name)) {
    return UnsupportedError("the filter ", Quoted(name), " of ", KindOf(of));
  }
  STOWAGE_ASSIGN_OR_RETURN(std::string text, TextOf(of));
  if (name == "string") return Value(std::move(text));
  if (name == "trim") {
    return Stripped(text, true, true, arguments.Find(0, "chars"));
  }
  if (name == "replace") return Replaced(text, arguments);
  return Cased(name, std::move(text));
}

Result<bool> ApplyTest(std::string_view name, const Value& of,
                       const Arguments& arguments) {
  if (!arguments.named.empty()) {
    return UnsupportedError("a test with arguments by name");
  }
  if (arguments.values.size() == 1) {
    const Value& other = arguments.values.front();
    if (name == "equalto" || name == "eq" || name == "==") {
      return Equal(of, other);
    }
    if (name == "ne" || name == "!=") return !Equal(of, other);
    if (name == "in") return Contains(other, of);
    if (name == "divisibleby" && Is<int64_t>(of) && Is<int64_t>(other) &&
        std::get<int64_t>(other) > 0) {
      return std::get<int64_t>(of) % std::get<int64_t>(other) == 0;
    }
  } else if (arguments.values.empty()) {
    if (name == "defined") return !Is<Undefined>(of);
    if (name == "undefined") return Is<Undefined>(of);
    if (name == "none") return Is<None>(of);
    if (name == "string") return Is<std::string>(of);
    if (name == "mapping") return IsDict(of);
    if (name == "boolean") return Is<bool>(of);
    if (name == "true") return Is<bool>(of) && std::get<bool>(of);
    if (name == "false") return Is<bool>(of) && !std::get<bool>(of);
    if (name == "integer") return Is<int64_t>(of);
    if (name == "float") return Is<double>(of);
    if (name == "number") return IsNumber(of);
    if (name == "callable") return Is<Function>(of);
    const bool has_items =
        Is<std::string>(of) || IsList(of) || IsDict(of) || Is<Undefined>(of);
    if (name == "sequence") return has_items;
    if (name == "iterable") return has_items || Is<Generator>(of);
    if ((name == "odd" || name == "even") && Is<int64_t>(of)) {
      return (std::get<int64_t>(of) % 2 != 0) == (name == "odd");
    }
  }
  return UnsupportedError("the test ", Quoted(name), " of ", KindOf(of));
}

Result<Value> CallMethod(std::string_view name, const Value& of,
                         const Arguments& arguments) {
  if (Is<Undefined>(of)) return UndefinedError(of);
  if (const auto* const text = std::get_if<std::string>(&of)) {
    return CallStringMethod(name, *text, arguments);
  }
  if (IsDict(of) && arguments.named.empty()) {
    const Dict& dict = *std::get<DictPointer>(of);
    if (name == "items" && arguments.values.empty()) return ItemsOf(dict);
    if (name == "keys" && arguments.values.empty()) {
      STOWAGE_ASSIGN_OR_RETURN(const ListPointer keys, Iterate(of));
      return Value(keys);
    }
    if (name == "values" && arguments.values.empty()) {
      std::vector<Value> values;
      for (const auto& [key, value] : dict.items) values.push_back(value);
      return MakeList(std::move(values));
    }
    if (name == "get" && !arguments.values.empty()) {
      STOWAGE_ASSIGN_OR_RETURN(const std::string key,
                               StringOf(&arguments.values[0], "get"));
      if (const Value* const found = dict.Find(key)) return *found;
      return arguments.values.size() > 1 ? arguments.values[1] : Value(None{});
    }
  }
  return UnsupportedError("the method ", Quoted(name), " of ", KindOf(of));
}

Result<Value> AttributeOf(const Value& of, std::string_view name) {
  if (Is<Undefined>(of)) return UndefinedError(of);
  if (Is<None>(of)) return Value(Undefined{std::string(name)});
  if (const auto* const loop = std::get_if<Loop>(&of)) {
    const auto size = std::ssize(loop->items->items);
    const auto index = static_cast<int64_t>(loop->index);
    if (name == "index0") return Value(index);
    if (name == "index") return Value(index + 1);
    if (name == "revindex0") return Value(size - index - 1);
    if (name == "revindex") return Value(size - index);
    if (name == "length") return Value(static_cast<int64_t>(size));
    if (name == "first") return Value(index == 0);
    if (name == "last") return Value(index + 1 == size);
    if (name == "previtem" || name == "nextitem") {
      const int64_t at = name == "nextitem" ? index + 1 : index - 1;
      if (at < 0 || at >= size) {
        return Value(Undefined{StrCat("loop.", name)});
      }
      return loop->items->items[static_cast<size_t>(at)];
    }
    return UnsupportedError("the attribute ", Quoted(name), " of a loop");
  }
  if (const auto* const space = std::get_if<Namespace>(&of)) {
    const Value* const found = space->attributes->Find(name);
    return found == nullptr ? Value(Undefined{std::string(name)}) : *found;
  }
  if (IsDict(of)) return ItemOf(of, std::string(name));
  if (Is<std::string>(of) && !Among(kStringMethods, name)) {
    return Value(Undefined{std::string(name)});
  }
  return UnsupportedError("the attribute ", Quoted(name), " of ", KindOf(of));
}

Result<Value> ItemOf(const Value& of, const Value& index) {
  if (Is<Undefined>(of)) return UndefinedError(of);
  if (Is<std::string>(index)) {
    const std::string& key = std::get<std::string>(index);
    if (IsDict(of)) {
      if (const Value* const found = std::get<DictPointer>(of)->Find(key)) {
        return *found;
      }
      if (!Among(kDictMethods, key)) return Value(Undefined{key});
      return UnsupportedError("the method ", Quoted(key), " as a value");
    }
    return AttributeOf(of, key);
  }
  if (Is<int64_t>(index) && (IsList(of) || Is<std::string>(of))) {
    STOWAGE_ASSIGN_OR_RETURN(const ListPointer list, Iterate(of));
    const int64_t size = std::ssize(list->items);
    const int64_t at = Position(std::get<int64_t>(index), size);
    if (at < 0 || at >= size) {
      return Value(
          Undefined{StrCat("item ", std::get<int64_t>(index), " of ", size)});
    }
    return list->items[static_cast<size_t>(at)];
  }
  return UnsupportedError("an index by ", KindOf(index), " into ", KindOf(of));
}

Result<Value> SliceOf(const Value& of, const Value& begin, const Value& end,
                      const Value& step) {
  if (Is<Undefined>(of)) return UndefinedError(of);
  if (!IsList(of) && !Is<std::string>(of)) {
    return UnsupportedError("a slice of ", KindOf(of));
  }
  STOWAGE_ASSIGN_OR_RETURN(const ListPointer list, Iterate(of));
  const int64_t size = std::ssize(list->items);
  for (const Value* bound : {&begin, &end, &step}) {
    if (!Is<None>(*bound) && !Is<int64_t>(*bound)) {
      return UnsupportedError("a slice by ", KindOf(*bound));
    }
  }
  const int64_t by = Is<None>(step) ? 1 : std::get<int64_t>(step);
  if (by == 0) return InvalidArgumentError("a slice in steps of 0");
  // Bounds beyond either end are clamped, as in Python's slice.indices.
  const auto bound = [&](const Value& value, int64_t otherwise) {
    if (Is<None>(value)) return otherwise;
    return std::clamp<int64_t>(Position(std::get<int64_t>(value), size),
                               by > 0 ? 0 : -1, by > 0 ? size : size - 1);
  };
  const int64_t from = bound(begin, by > 0 ? 0 : size - 1);
  const int64_t to = bound(end, by > 0 ? size : -1);
  std::vector<Value> items;
  for (int64_t i = from; by > 0 ? i < to : i > to; i += by) {
    items.push_back(list->items[static_cast<size_t>(i)]);
    // A longer step would leave the range, and might overflow.
    if (by > size || by < -size) break;
  }
  if (IsList(of)) return MakeList(std::move(items));
  return Joined(MakeList(std::move(items)), "");
}

Result<Value> Operate(std::string_view operation, const Value& left,
                      const Value& right) {
  if (operation == "~") {
    STOWAGE_ASSIGN_OR_RETURN(std::string first, TextOf(left));
    STOWAGE_ASSIGN_OR_RETURN(const std::string second, TextOf(right));
    return Value(std::move(first) + second);
  }
  for (const Value* side : {&left, &right}) {
    if (Is<Undefined>(*side)) return UndefinedError(*side);
  }
  if (operation == "+" && Is<std::string>(left) && Is<std::string>(right)) {
    return Value(std::get<std::string>(left) + std::get<std::string>(right));
  }
  if (operation == "+" && IsList(left) && IsList(right)) {
    std::vector<Value> all = std::get<ListPointer>(left)->items;
    const std::vector<Value>& more = std::get<ListPointer>(right)->items;
    all.insert(all.end(), more.begin(), more.end());
    return MakeList(std::move(all));
  }
  if (!Is<int64_t>(left) || !Is<int64_t>(right)) {
    return UnsupportedError("the operator ", Quoted(operation), " of ",
                            KindOf(left), " and ", KindOf(right));
  }
  const int64_t a = std::get<int64_t>(left), b = std::get<int64_t>(right);
  int64_t result = 0;
  bool overflow = false;
  if (operation == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (operation == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (operation == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (operation == "/") {
    return UnsupportedError(
        "the operator \"/\", whose result is a real number");
  } else if (b == 0) {
    return InvalidArgumentError("it divides by 0");
  } else if (b == -1) {
    overflow = a == std::numeric_limits<int64_t>::min();
    if (operation == "//" && !overflow) result = -a;
  } else {
    // Floor division.
    const int64_t rest = a % b;
    const bool below = rest != 0 && (rest < 0) != (b < 0);
    result =
        operation == "//" ? a / b - (below ? 1 : 0) : rest + (below ? b : 0);
  }
  if (overflow) return UnsupportedError("an integer beyond 63 bits");
  return Value(result);
}

}  // namespace stowage::jinja
