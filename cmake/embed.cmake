# SPDX-License-Identifier: Apache-2.0
# Writes RESULT, a C++ file with the bytes of SOURCE as a std::string_view: k and the file's name in
# PascalCase. Bytes, not a raw literal: compilers bound those, and CMake's text functions eat some
# characters.
get_filename_component(name ${SOURCE} NAME_WE)
string(REPLACE "_" ";" words ${name})
set(constant k)
foreach(word ${words})
  string(SUBSTRING ${word} 0 1 first)
  string(SUBSTRING ${word} 1 -1 rest)
  string(TOUPPER ${first} first)
  string(APPEND constant ${first}${rest})
endforeach()
file(READ ${SOURCE} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\"\n\"" bytes "${bytes}")
file(WRITE ${RESULT} "// Made from ${name} by cmake/embed.cmake.
#include <string_view>
namespace tephra {
extern const std::string_view ${constant};
const std::string_view ${constant}(\"${bytes}\", ${size});
}  // namespace tephra
")
