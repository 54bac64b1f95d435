//! Compares Compound TCP, CCP, CCPD and CUBIC with closed forms, and with a second implementation of each in
//! floating point, which was written from the equations and not from the code.

mod ccp;
mod compound;
mod cubic;
mod flow;
mod hystart;
