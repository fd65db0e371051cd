// SPDX-License-Identifier: Apache-2.0
// Methods of str, list, tuple and dict: those that leave the value as it is.
#include <algorithm>

#include "tephra/text/jinja_runtime.h"
#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

Value new_text(Call& call, std::string text) {
  return call.runtime.budget.text(std::move(text), call.self.text().markup);
}

const std::string& own_text(Call& call) {
  call.runtime.budget.step(static_cast<int64_t>(call.self.bytes().size()) / 64);
  return call.self.bytes();
}

Value strip_ends(Call& call, bool left, bool right) {
  const std::string* characters = call.has_not_none(0) ? &call.text(0) : nullptr;
  return new_text(call, std::string(stripped(own_text(call), characters, left, right)));
}
Value strip(Call& call) { return strip_ends(call, true, true); }
Value lstrip(Call& call) { return strip_ends(call, true, false); }
Value rstrip(Call& call) { return strip_ends(call, false, true); }

Value pieces(Call& call, const std::vector<std::string_view>& parts) {
  Items out;
  for (const std::string_view part : parts) out.push_back(new_text(call, std::string(part)));
  return call.runtime.budget.list(std::move(out));
}

Value split_text(Call& call, bool from_right) {
  const int64_t limit = call.integer_or(1, -1);
  const std::string& text = own_text(call);
  if (!call.has_not_none(0)) return pieces(call, split_words(text, limit, from_right));
  const std::string& separator = call.text(0);
  if (separator.empty()) fail("'{}' needs a separator that is not empty", call.name);
  call.runtime.budget.bytes(count_part(text, separator) * int64_t{sizeof(Value)});
  return pieces(call, split_at(text, separator, limit, from_right));
}
Value split_left(Call& call) { return split_text(call, false); }
Value rsplit(Call& call) { return split_text(call, true); }
Value splitlines(Call& call) {
  return pieces(call, split_lines(own_text(call), call.truth_or(0, false)));
}

Value partition_at(Call& call, bool last) {
  const std::string& text = own_text(call);
  const std::string& separator = call.text(0);
  if (separator.empty()) fail("'{}' needs a separator that is not empty", call.name);
  const size_t at = last ? text.rfind(separator) : find_part(text, separator);
  const auto part = [&](std::string_view piece) { return new_text(call, std::string(piece)); };
  if (at == text.npos) {
    return last ? call.runtime.budget.tuple({part(""), part(""), part(text)})
                : call.runtime.budget.tuple({part(text), part(""), part("")});
  }
  return call.runtime.budget.tuple(
      {part(text.substr(0, at)), part(separator), part(text.substr(at + separator.size()))});
}
Value partition(Call& call) { return partition_at(call, false); }
Value rpartition(Call& call) { return partition_at(call, true); }

// The bytes between the optional start and end arguments, which count code points.
struct Window {
  std::string_view text;
  int64_t start;
  bool valid;  // false when the start lies beyond the text
};

Window window_of(Call& call, size_t first) {
  const std::string_view text = own_text(call);
  const int64_t length = count_code_points(text);
  const auto bound = [&](size_t i, int64_t fallback) {
    if (!call.has_not_none(i)) return fallback;
    int64_t at = call.integer(i);
    if (at < 0) at = std::max<int64_t>(0, at + length);
    return at;
  };
  const int64_t start = bound(first, 0), end = std::min(bound(first + 1, length), length);
  if (start > end) return {"", start, start <= length && start == end};
  const size_t begin = byte_offset(text, start);
  return {text.substr(begin, byte_offset(text, end) - begin), start, true};
}

// -1 when it is nowhere.
int64_t position(Call& call, bool last) {
  const std::string& part = call.text(0);
  const Window window = window_of(call, 1);
  if (!window.valid) return -1;
  const size_t at = last ? window.text.rfind(part) : find_part(window.text, part);
  if (at == window.text.npos) return -1;
  return window.start + count_code_points(window.text.substr(0, at));
}
Value find(Call& call) { return position(call, false); }
Value rfind(Call& call) { return position(call, true); }
Value index(Call& call) {
  const int64_t at = position(call, call.name == "rindex");
  if (at < 0) fail("'{}': the part is not in the str", call.name);
  return at;
}

Value count(Call& call) {
  const Window window = window_of(call, 1);
  return window.valid ? count_part(window.text, call.text(0)) : int64_t{0};
}

Value affixed(Call& call, bool end) {
  const Window window = window_of(call, 1);
  const auto matches = [&](const Value& part) {
    if (!part.is_text()) {
      fail("'{}' needs a str or a tuple of str, got {}", call.name, part.type_name());
    }
    return window.valid &&
           (end ? window.text.ends_with(part.bytes()) : window.text.starts_with(part.bytes()));
  };
  const Value& wanted = call.at(0);
  if (wanted.is_undefined()) fail("'{}': {}", call.name, wanted.why_undefined());
  if (!wanted.is_sequence() || wanted.sequence().flavour != Flavour::tuple) return matches(wanted);
  const Items& parts = wanted.sequence().items;
  return std::any_of(parts.begin(), parts.end(), matches);
}
Value startswith(Call& call) { return affixed(call, false); }
Value endswith(Call& call) { return affixed(call, true); }

Value replace(Call& call) {
  const std::string &from = call.text(0), &to = call.text(1), &text = own_text(call);
  call.runtime.budget.bytes(count_part(text, from) * static_cast<int64_t>(to.size()));
  return new_text(call, replaced(text, from, to, call.integer_or(2, -1)));
}

Value removeprefix(Call& call) {
  const std::string& text = own_text(call);
  return new_text(call, text.starts_with(call.text(0)) ? text.substr(call.text(0).size()) : text);
}
Value removesuffix(Call& call) {
  const std::string& text = own_text(call);
  const bool ends = !call.text(0).empty() && text.ends_with(call.text(0));
  return new_text(call, ends ? text.substr(0, text.size() - call.text(0).size()) : text);
}

Value upper_text(Call& call) { return new_text(call, upper(own_text(call))); }
Value lower_text(Call& call) { return new_text(call, lower(own_text(call))); }
Value title_text(Call& call) { return new_text(call, title(own_text(call))); }
Value capitalize(Call& call) { return new_text(call, capitalized(own_text(call))); }
Value swapcase(Call& call) { return new_text(call, case_swapped(own_text(call))); }

Value join(Call& call) {
  std::string out;
  const Items items = call.runtime.items(call.at(0));
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_text()) {
      fail("'join' needs strings, item {} is {}; the filter |join takes anything", i,
           items[i].type_name());
    }
    if (i > 0) out += call.self.bytes();
    out += items[i].bytes();
    call.runtime.budget.bytes(
        static_cast<int64_t>(call.self.bytes().size() + items[i].bytes().size()));
  }
  return new_text(call, std::move(out));
}

// left, right: how much of the missing width goes to which side, in halves.
Value padded(Call& call, bool left, bool right) {
  const std::string fill = call.text_or(1, " ");
  if (count_code_points(fill) != 1) fail("'{}' needs one character to fill with", call.name);
  const std::string& text = own_text(call);
  const int64_t width = call.integer(0);
  const int64_t missing = std::max<int64_t>(0, width - count_code_points(text));
  call.runtime.budget.bytes(std::min(missing, int64_t{1} << 40) * 4);
  const int64_t before = left && right ? missing / 2 + (missing & width & 1) : left ? missing : 0;
  std::string out;
  for (int64_t i = 0; i < before; ++i) out += fill;
  out += text;
  for (int64_t i = before; i < missing; ++i) out += fill;
  return new_text(call, std::move(out));
}
Value ljust(Call& call) { return padded(call, false, true); }
Value rjust(Call& call) { return padded(call, true, false); }
Value center(Call& call) { return padded(call, true, true); }

Value zfill(Call& call) {
  std::string text = own_text(call);
  const int64_t missing = std::max<int64_t>(0, call.integer(0) - count_code_points(text));
  call.runtime.budget.bytes(std::min(missing, int64_t{1} << 40));
  const size_t at = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  return new_text(call, text.insert(at, static_cast<size_t>(missing), '0'));
}

template <CharacterClass kClass>
Value is_class(Call& call) {
  return all_of_class(own_text(call), kClass);
}
Value islower(Call& call) { return is_lower_text(own_text(call)); }
Value isupper(Call& call) { return is_upper_text(own_text(call)); }
Value istitle(Call& call) { return is_title_text(own_text(call)); }
Value isidentifier(Call& call) {
  const std::string& text = own_text(call);
  return !text.empty() && name_length(text) == text.size();
}

Value format_method(Call& call) {
  return call.runtime.braces(call.self, {std::move(call.more), std::move(call.more_named)});
}
Value format_map(Call& call) {
  if (!call.at(0).is_dict()) fail("'format_map' needs a mapping, got {}", call.at(0).type_name());
  Arguments arguments;
  for (const auto& [key, value] : call.at(0).dict().pairs) {
    if (key.is_text()) arguments.named.emplace_back(key.bytes(), value);
  }
  return call.runtime.braces(call.self, arguments);
}

Value list_index(Call& call) {
  const Items& items = call.self.sequence().items;
  const auto length = static_cast<int64_t>(items.size());
  const auto bound = [&](size_t i, int64_t fallback) {
    if (!call.has(i)) return fallback;
    const int64_t at = call.integer(i);
    return std::clamp<int64_t>(at < 0 ? at + length : at, 0, length);
  };
  const int64_t end = bound(2, length);
  for (int64_t i = bound(1, 0); i < end; ++i) {
    if (call.runtime.equal(items[static_cast<size_t>(i)], call.at(0))) return i;
  }
  fail("'index': the value is not in the {}", call.self.type_name());
}

Value list_count(Call& call) {
  int64_t found = 0;
  for (const Value& item : call.self.sequence().items) {
    found += call.runtime.equal(item, call.at(0)) ? 1 : 0;
  }
  return found;
}

Value copy(Call& call) {
  return call.self.is_dict() ? call.runtime.budget.dict(call.self.dict().pairs)
                             : call.runtime.budget.list(call.self.sequence().items);
}

Value dict_view(Call& call, Flavour flavour) {
  Items out;
  for (const auto& [key, value] : call.self.dict().pairs) {
    out.push_back(flavour == Flavour::keys     ? key
                  : flavour == Flavour::values ? value
                                               : call.runtime.budget.tuple({key, value}));
  }
  return call.runtime.budget.list(std::move(out), flavour);
}
Value keys(Call& call) { return dict_view(call, Flavour::keys); }
Value values(Call& call) { return dict_view(call, Flavour::values); }
Value items(Call& call) { return dict_view(call, Flavour::items); }

Value get(Call& call) {
  const Value* found = call.runtime.find(call.self.dict(), call.at(0));
  if (found != nullptr) return *found;
  return call.has(1) ? call.at(1) : Value(None());
}

constexpr Builtin kTextMethods[] = {
    {"capitalize", "", capitalize},
    {"center", "$width! $fill", center},
    {"count", "$part! $start $end", count},
    {"endswith", "$suffix! $start $end", endswith},
    {"find", "$part! $start $end", find},
    {"format", "* **", format_method},
    {"format_map", "$mapping!", format_map},
    {"index", "$part! $start $end", index},
    {"isalnum", "", is_class<CharacterClass::alnum>},
    {"isalpha", "", is_class<CharacterClass::alpha>},
    {"isascii", "", is_class<CharacterClass::ascii>},
    {"isdecimal", "", is_class<CharacterClass::decimal>},
    {"isdigit", "", is_class<CharacterClass::digit>},
    {"isidentifier", "", isidentifier},
    {"islower", "", islower},
    {"isnumeric", "", is_class<CharacterClass::numeric>},
    {"isprintable", "", is_class<CharacterClass::printable>},
    {"isspace", "", is_class<CharacterClass::space>},
    {"istitle", "", istitle},
    {"isupper", "", isupper},
    {"join", "$items!", join},
    {"ljust", "$width! $fill", ljust},
    {"lower", "", lower_text},
    {"lstrip", "$characters", lstrip},
    {"partition", "$separator!", partition},
    {"removeprefix", "$prefix!", removeprefix},
    {"removesuffix", "$suffix!", removesuffix},
    {"replace", "$old! $new! $count", replace},
    {"rfind", "$part! $start $end", rfind},
    {"rindex", "$part! $start $end", index},
    {"rjust", "$width! $fill", rjust},
    {"rpartition", "$separator!", rpartition},
    {"rsplit", "sep maxsplit", rsplit},
    {"rstrip", "$characters", rstrip},
    {"split", "sep maxsplit", split_left},
    {"splitlines", "keepends", splitlines},
    {"startswith", "$prefix! $start $end", startswith},
    {"strip", "$characters", strip},
    {"swapcase", "", swapcase},
    {"title", "", title_text},
    {"upper", "", upper_text},
    {"zfill", "$width!", zfill},
};

constexpr Builtin kListMethods[] = {
    {"copy", "", copy},
    {"count", "$value!", list_count},
    {"index", "$value! $start $end", list_index},
};

constexpr Builtin kTupleMethods[] = {
    {"count", "$value!", list_count},
    {"index", "$value! $start $end", list_index},
};

constexpr Builtin kDictMethods[] = {
    {"copy", "", copy}, {"get", "$key! $default", get}, {"items", "", items},
    {"keys", "", keys}, {"values", "", values},
};

}  // namespace

std::span<const Builtin> text_methods() { return kTextMethods; }
std::span<const Builtin> sequence_methods() { return kListMethods; }
std::span<const Builtin> tuple_methods() { return kTupleMethods; }
std::span<const Builtin> dict_methods() { return kDictMethods; }

}  // namespace tephra::jinja
