// The report's page, styles and script, as built in (page.html, .css, .js).
#pragma once

#include <string_view>

namespace reprise {

extern const std::string_view kPageHtml, kPageCss, kPageScript;

}  // namespace reprise
