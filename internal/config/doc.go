// Package config reads what an operator says - broker.conf, flags, environment, trailing key=value arguments - and gives the
// other rooms one Config. It opens no port and touches no file but the one that the caller's readFile opens.
//
// # Keys
//
// A key is a field of BrokerConfig, ServerConfig, StoreConfig or PeregrineConfig: its name is the original's, the field's name
// is the key with a capital first letter, everything else about it stands in the field's tags:
//
//	key        the name in broker.conf
//	default    its value when nobody sets it; what the original 5.5.0 has, unless doc says otherwise
//	unit       of the number: the field holds the number as written, never converted
//	range      "least..most", both allowed; a number outside stops the start
//	clamp      "least..most": a number outside is moved to the border with a warning, as the original does
//	values     "A|B|C": the texts allowed, upper and lower case as written
//	only       the values that are served; any other one stops the start with why, for it changes a promise
//	why        the sentence for a value that is not served
//	pending    read and checked, but what it controls is not built yet: listed once at start
//	reload     "yes" if a change at run time (code 25) takes effect at once
//	important  "yes" if -m prints it
//	doc        its meaning, for the table in OPERATIONS.md
//
// Own keys begin with "peregrine.". Keys of the original that have no field are in known.go with the reason why they do not
// apply. All other keys are unknown: listed once, never an error, except below "peregrine.", where it can only be a mistake.
//
// # Where a value comes from
//
// Trailing arguments, flags, PEREGRINE_ variables, the file, NAMESRV_ADDR, the default: the first of these that names a key
// wins. The file is read as java.util.Properties reads it: see properties.go.
//
// A Config is written by Load and Resolve and only read afterwards: any goroutine may read it.
package config
