# Makes of the chat page's files one document, and of that a C file, which src/server/page.h
# declares: cmake -D FROM=src/server/page -D TO=page_html.c -P cmake/page.cmake
cmake_minimum_required(VERSION 3.22)

# SHA-256 of a text, as a Content-Security-Policy has it.
function(hash_source TEXT OUT)
  set(LETTERS ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  string(SHA256 HEX "${TEXT}")
  string(REGEX MATCHALL "......" GROUPS "${HEX}00") # of 24 bits; the last byte is none of the hash
  set(BASE64 "")
  foreach(GROUP ${GROUPS})
    foreach(SHIFT 18 12 6 0)
      math(EXPR I "(0x${GROUP} >> ${SHIFT}) & 63")
      string(SUBSTRING ${LETTERS} ${I} 1 LETTER)
      string(APPEND BASE64 ${LETTER})
    endforeach()
  endforeach()
  string(REGEX REPLACE ".$" "=" BASE64 ${BASE64})
  set(${OUT} "'sha256-${BASE64}'" PARENT_SCOPE)
endfunction()

file(READ ${FROM}/page.html HTML)
file(READ ${FROM}/page.css STYLE)
file(READ ${FROM}/markdown.js MARKDOWN)
file(READ ${FROM}/page.js SCRIPT)
set(SCRIPT "${MARKDOWN}\n${SCRIPT}")
hash_source("${STYLE}" STYLE_HASH)
hash_source("${SCRIPT}" SCRIPT_HASH)
string(REPLACE "@STYLE@" "${STYLE}" HTML "${HTML}")
string(REPLACE "@SCRIPT@" "${SCRIPT}" HTML "${HTML}")
string(CONCAT POLICY "default-src 'none'; script-src ${SCRIPT_HASH}; style-src ${STYLE_HASH}; "
  "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
  "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")

file(WRITE ${TO}.html "${HTML}")
file(READ ${TO}.html HEX HEX)
string(REGEX REPLACE "(................................................)" "\\1\n" HEX "${HEX}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," HEX "${HEX}")
file(WRITE ${TO} "#include \"server/page.h\"\n\nconst char page_html[] = {\n${HEX}\n};\n"
  "const size_t page_size = sizeof page_html;\nconst char page_policy[] =\n    \"${POLICY}\";\n")
