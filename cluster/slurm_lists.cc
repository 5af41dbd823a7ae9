#include "cluster/slurm_lists.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>

#include "base/strings.h"

namespace stowage::cluster {
namespace {

constexpr std::string_view kDigits = "0123456789";

Error Wrong(std::string_view list, std::string_view what,
            std::string_view expected) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[cluster] ", what, " in Slurm's list ", Quoted(list),
                 "; expected a form such as ", expected)};
}
Error WrongHosts(std::string_view list, std::string_view what) {
  return Wrong(list, what, "node[01-03,07]");
}

// A number of nothing but digits, below 2^31.
std::optional<int> NumberOf(std::string_view text) {
  int number = 0;
  const auto [end, failed] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = failed == std::errc() && !text.empty() &&
                         end == text.data() + text.size() && text[0] != '-';
  return is_number ? std::optional(number) : std::nullopt;
}

// Up to the first `separator`, which is dropped from `rest`, or to the end.
std::string_view Next(std::string_view* rest, char separator) {
  const size_t end = rest->find(separator);
  const std::string_view next = rest->substr(0, end);
  *rest = end == std::string_view::npos ? "" : rest->substr(end + 1);
  return next;
}

// Of the digits of `width`, or more where it takes more.
std::string Padded(int number, size_t width) {
  const std::string digits = std::to_string(number);
  return digits.size() >= width
             ? digits
             : std::string(width - digits.size(), '0') + digits;
}

// "01-03,07", what stands in brackets: 01, 02, 03, 07.
Result<std::vector<std::string>> Numbers(std::string_view list,
                                         std::string_view brackets) {
  std::vector<std::string> numbers;
  // An empty part behind the last comma counts.
  for (bool is_more = true; is_more;) {
    is_more = brackets.find(',') != std::string_view::npos;
    std::string_view part = Next(&brackets, ',');
    const std::string_view whole = part;
    const std::string_view low = Next(&part, '-');
    const bool is_range = low.size() < whole.size();
    const std::optional<int> first = NumberOf(low);
    const std::optional<int> last = is_range ? NumberOf(part) : first;
    if (!first || !last || *last < *first) {
      return WrongHosts(list, StrCat("the range ", Quoted(whole), " is none"));
    }
    if (*last - *first >= kMostHosts - std::ssize(numbers)) {
      return WrongHosts(list, StrCat("more than ", kMostHosts, " hosts"));
    }
    for (int64_t n = *first; n <= *last; ++n) {
      numbers.push_back(Padded(static_cast<int>(n), low.size()));
    }
  }
  return numbers;
}

// All names that begin as `names` do and go on with one of `ends`.
Result<std::vector<std::string>> Combined(
    std::string_view list, const std::vector<std::string>& names,
    const std::vector<std::string>& ends) {
  if (names.size() * ends.size() > size_t{kMostHosts}) {
    return WrongHosts(list, StrCat("more than ", kMostHosts, " hosts"));
  }
  std::vector<std::string> combined;
  for (const std::string& name : names) {
    for (const std::string& end : ends) combined.push_back(name + end);
  }
  return combined;
}

// The hosts of "rack[1-2]node[0-3]".
Result<std::vector<std::string>> Names(std::string_view list,
                                       std::string_view form) {
  if (form.empty()) return WrongHosts(list, "an empty name");
  std::vector<std::string> names = {""};
  while (!form.empty()) {
    const size_t plain = std::min(form.find_first_of("[]"), form.size());
    for (std::string& name : names) name += form.substr(0, plain);
    form.remove_prefix(plain);
    if (form.empty()) break;
    const size_t close = form.find_first_of("[]", 1);
    if (form[0] == ']' || close == std::string_view::npos ||
        form[close] == '[') {
      return WrongHosts(list, "a bracket without its other");
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<std::string> numbers,
                             Numbers(list, form.substr(1, close - 1)));
    STOWAGE_ASSIGN_OR_RETURN(names, Combined(list, names, numbers));
    form.remove_prefix(close + 1);
  }
  return names;
}

// The length of the form at the front of `rest`: up to a comma outside brackets.
size_t FormLength(std::string_view rest) {
  bool is_inside = false;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '[') is_inside = true;
    if (rest[i] == ']') is_inside = false;
    if (rest[i] == ',' && !is_inside) return i;
  }
  return rest.size();
}

}  // namespace

Result<std::vector<std::string>> ParseHostList(std::string_view list) {
  std::vector<std::string> hosts;
  std::string_view rest = list;
  while (true) {
    const size_t length = FormLength(rest);
    STOWAGE_ASSIGN_OR_RETURN(std::vector<std::string> names,
                             Names(list, rest.substr(0, length)));
    hosts.insert(hosts.end(), std::make_move_iterator(names.begin()),
                 std::make_move_iterator(names.end()));
    if (std::ssize(hosts) > kMostHosts) {
      return WrongHosts(list, StrCat("more than ", kMostHosts, " hosts"));
    }
    if (length == rest.size()) return hosts;
    rest.remove_prefix(length + 1);
  }
}

Result<std::vector<int>> ParseTasksPerNode(std::string_view list) {
  constexpr std::string_view kForm = "4(x2),3";
  std::vector<int> counts;
  std::string_view rest = list;
  for (bool is_more = true; is_more;) {
    is_more = rest.find(',') != std::string_view::npos;
    const std::string_view part = Next(&rest, ',');
    const size_t digits =
        std::min(part.find_first_not_of(kDigits), part.size());
    const std::optional<int> count = NumberOf(part.substr(0, digits));
    std::string_view times = part.substr(digits);
    std::optional<int> hosts = 1;
    if (times.starts_with("(x") && times.ends_with(")")) {
      hosts = NumberOf(times.substr(2, times.size() - 3));
      times = "";
    }
    if (!count || !hosts || *hosts < 1 || !times.empty()) {
      return Wrong(list, StrCat(Quoted(part), " is no count"), kForm);
    }
    if (*hosts > kMostHosts - std::ssize(counts)) {
      return Wrong(list, StrCat("more than ", kMostHosts, " hosts"), kForm);
    }
    counts.insert(counts.end(), static_cast<size_t>(*hosts), *count);
  }
  return counts;
}

}  // namespace stowage::cluster
