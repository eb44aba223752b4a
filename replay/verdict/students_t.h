// Student's t distribution, computed in double: long double is another type on
// each kind of machine.
#pragma once

#include <boost/math/distributions/students_t.hpp>

namespace reprise {

using StudentsT = boost::math::students_t_distribution<
    double, boost::math::policies::policy<
                boost::math::policies::promote_double<false>>>;

}  // namespace reprise
